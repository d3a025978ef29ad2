package handler

// sheetTexts are the names of columns and states in a file, by language. Times get their zone behind the name. The texts of
// states are those of the console.
var sheetTexts = map[string]map[string]string{
	"en": {
		"order_id": "Order", "payment_id": "Payment", "voucher_id": "Sale ID", "user_id": "User ID", "id": "Entry", "shop_id": "Shop ID",
		"title": "Sale", "sub_title": "Subtitle", "rules": "Terms of use", "shop_name": "Shop", "phone": "Phone", "status": "Status",
		"amount": "Amount", "face_value": "Face value", "currency": "Currency", "provider": "Payment provider",
		"provider_ref": "Payment reference", "payment_ref": "Payment reference",
		"created_at": "Created at", "updated_at": "Changed at", "expires_at": "Payment due", "paid_at": "Paid at", "redeemed_at": "Redeemed at",
		"cancelled_at": "Cancelled at", "refunded_at": "Refunded at", "at": "Time",
		"valid_from": "Valid from", "valid_until": "Valid until",
		"actor": "Actor", "actor_id": "Actor ID", "action": "Action", "detail": "Details", "role": "Role", "method": "Method",
		"route": "Route", "target": "Object ID", "request_id": "Request ID", "network": "Network",

		"status.pending_payment": "Awaiting payment", "status.paid": "Paid", "status.redeemed": "Redeemed", "status.cancelled": "Cancelled",
		"status.refunding": "Refunding…", "status.refunded": "Refunded", "status.queued": "In the queue", "status.failed": "Failed",
		"payment.pending": "Pending", "payment.succeeded": "Succeeded", "payment.failed": "Failed", "payment.refunding": "Refunding",
		"payment.refunded": "Refunded", "payment.disputed": "Disputed",
	},
	"zh": {
		"order_id": "订单号", "payment_id": "支付编号", "voucher_id": "活动 ID", "user_id": "用户 ID", "id": "记录编号", "shop_id": "店铺 ID",
		"title": "活动", "sub_title": "副标题", "rules": "使用规则", "shop_name": "店铺", "phone": "手机号", "status": "状态",
		"amount": "金额", "face_value": "面值", "currency": "币种", "provider": "支付渠道",
		"provider_ref": "支付流水号", "payment_ref": "支付流水号",
		"created_at": "创建时间", "updated_at": "更新时间", "expires_at": "支付截止", "paid_at": "支付时间", "redeemed_at": "核销时间",
		"cancelled_at": "取消时间", "refunded_at": "退款时间", "at": "时间",
		"valid_from": "有效期起", "valid_until": "有效期止",
		"actor": "操作者", "actor_id": "操作者 ID", "action": "操作", "detail": "详情", "role": "角色", "method": "方法",
		"route": "路由", "target": "对象编号", "request_id": "请求编号", "network": "网络",

		"status.pending_payment": "待支付", "status.paid": "已支付", "status.redeemed": "已核销", "status.cancelled": "已取消",
		"status.refunding": "退款中…", "status.refunded": "已退款", "status.queued": "排队中", "status.failed": "下单失败",
		"payment.pending": "处理中", "payment.succeeded": "成功", "payment.failed": "失败", "payment.refunding": "退款中",
		"payment.refunded": "已退款", "payment.disputed": "已拒付",
	},
}

// The server's explanations in Chinese. In other languages they are shown as sent.

import { has, language, number, stamp, t } from "../lib/i18n.js";

// sentences translate the details of verdicts, findings, refusals, payment notices and the audit log, or the parts of one that "; "
// separates; a group of the pattern is inserted for $1, $2 and so on.
const sentences = [
  [/^(\d+) active of (-?\d+)$/, "有效订单 $1，总库存 $2"],
  [/^no user exceeds the limit$/, "没有用户超出限购"],
  [/^(-?\d+) left \+ (\d+) active = (-?\d+)$/, "未售 $1 + 有效订单 $2 = $3"],
  [/^(-?\d+) free, all of them for sale$/, "未售 $1 份，均可购买"],
  [/^(\d+) active orders for (-?\d+) units$/, "有效订单 $1，超过总库存 $2"],
  [/^(\d+) users hold more active orders than allowed$/, "$1 位用户超出限购"],
  [/^(\d+) users hold more active orders than allowed: (.+)$/,
    (_, n, users) => `${n} 位用户超出限购：${users.replace(/user (\d+) has (\d+)/g, "用户 $1 有 $2 单").replaceAll(", ", "，")}`],
  [/^the newest orders are in excess$/, "多出的是最新的订单"],
  [/^the sale does not exist$/, "活动不存在"],
  [/^an order took no unit \(.+\), or units were added without a stock change$/, "有订单未扣库存（可能是最新的几单），或库存被增加而没有变更记录"],
  [/^an order did not return its unit \(.+\), or units were removed without a stock change$/, "有订单未退回库存（可能是所列订单），或库存被减少而没有变更记录"],
  [/^(\d+) orders have a slot that does not match their status$/, "$1 个订单的名额与状态不符"],
  [/^(-?\d+) units left \+ (\d+) active orders, but (-?\d+) units in total$/, "未售 $1 + 有效订单 $2，与总库存 $3 不符"],
  [/^(-?\d+) units are free, but only (-?\d+) can be bought$/, "未售 $1 份，仅 $2 份可购买"],
  [/^the database could not be read$/, "无法读取数据库"],
  [/^the orders are being counted$/, "正在统计订单"],
  [/^ends before it begins$/, "尚未设定开始和结束时间"],
  [/^(\d+) sold of (\d+)$/, "售出 $1 / $2"],
  [/^(\d+) users with more than one$/, "$1 位用户多于一单"],
  [/^(\d+) sold \+ (-?\d+) left = (-?\d+)$/, "售出 $1 + 剩余 $2 = $3"],
  [/^(\d+) answers differ from the buyer's orders$/, "$1 个返回结果与订单不符"],
  [/^(-?\d+) left, (\d+) buyers answered sold_out$/, "剩余 $1，$2 位买家收到“已抢光”"],
  [/^(\d+) IDs of (\d+) orders$/, "$2 个订单，$1 个编号"],
  [/^by its code$/, "凭核销码"],
  [/^without a code$/, "未验核销码"],
  [/^no payment was received$/, "未收到款项"],
  [/^not found$/, "找不到对应的订单"],
  [/^body: is not a payment notice in JSON$/, "内容不是 JSON 格式的支付通知"],
  [/^provider_ref: (is required|must have .+)$/, "流水号缺失或无效"],
  [/^provider_ref: belongs to another payment$/, "流水号属于另一笔支付"],
  [/^order_id: must be the id of an order$/, "订单号无效"],
  [/^amount: must be .+$/, "金额无效"],
  [/^amount: differs from (?:that|the earlier notice) of this payment$/, "金额与该笔支付不一致"],
  [/^currency: must be an ISO 4217 currency code, such as CNY$/, "货币代码无效"],
  [/^status: must be succeeded, failed, refunded or disputed$/, "状态无效"],
  [/^(\S+): the payment was not begun by this shop$/, "$1：不是本店发起的支付"],
  [/^(\S+): the order is (\w+)$/, (_, ref, status) => `${ref}：订单状态为“${textOf(["status"], status)}”`],
  [/^(\S+): (refunded|disputed)$/, (_, ref, status) => `${ref}：${textOf(["payment"], status)}`],
  [/^(\S+): received ([\d.]+) (\w+) for an order of ([\d.]+) (\w+)$/, "$1：收到 $2 $3，订单金额为 $4 $5"],
  [/^the line of the waiting room was drawn at the start of this sale .+$/, "等候室已在开抢时抽签，不能用于更晚的场次，请新建活动。"],
  [/^shop (\d+)$/, "店铺 $1"],
  [/^default$/, "默认"],
  [/^passes for (\S+)$/, "凭证有效期 $1"],
  [/^with challenge$/, "人机验证"],
  [/^opens (\S+)$/, (_, at) => `${stamp(at)} 开放`],
];

// kinds explain the kinds of findings.
const kinds = {
  gate_cold: "活动进行中，但准入尚未加载；下一位买家或修复操作会加载",
  gate_broken: "准入的键类型错误或不是数字，由其他程序写入",
  gate_differs: "准入与数据库不符：库存、订单或买家有出入",
  queue_differs: "排队凭证与队列消息不符",
  stuck: "订单在队列中停留过久",
  dead_letters: "有死信待处理",
  unpaid_not_closed: "超时未付的订单尚未关闭",
  refund_unfinished: "退款尚未完成",
};

// detailOf returns a detail of the server and its language.
export function detailOf(detail) {
  if (language() !== "zh") return [detail, null];
  const parts = detail.split("; ").map((part) => {
    const found = sentences.find(([pattern]) => pattern.test(part));
    return found && part.replace(...found);
  });
  return parts.includes(undefined) ? [detail, "en"] : [parts.join("；"), null];
}

// violations measure what is wrong by the numbers of a detail, and name the words for it.
const violations = [
  [/^(\d+) active orders for (-?\d+) units/, (active, all) => ["oversold", active - all]],
  [/^(\d+) users hold more active orders/, (users) => ["overLimit", users]],
  [/^(-?\d+) units left \+ (\d+) active orders, but (-?\d+) units/, (left, active, all) => [left + active > all ? "tooMany" : "tooFew", Math.abs(left + active - all)]],
  [/^(-?\d+) units are free, but only (-?\d+) can be bought/, (free, left) => ["unsold", free - left]],
];

// violationOf returns what a violated invariant means for a merchant.
export function violationOf({ detail }) {
  for (const [pattern, measure] of violations) {
    const numbers = pattern.exec(detail)?.slice(1).map(Number);
    if (!numbers) continue;
    const [words, n] = measure(...numbers);
    return t(`violation.${words}`, { n: number(n) });
  }
  return t("violation.other");
}

// findingOf is detailOf for a finding, by its kind.
export const findingOf = (f) => (language() === "zh" && kinds[f.kind] ? [kinds[f.kind], null] : detailOf(f.detail));

// change matches a change in a detail of the audit log: a field with its old and its new value. Texts of staff are quoted.
const change = /(?:^|; )([a-z_]+): ("(?:[^"\\]|\\.)*"|[^;"]*) -> ("(?:[^"\\]|\\.)*"|[^;"]*)(?=; |$)/g;
const time = /^\d{4}-\d\d-\d\dT\S+$/;

// textOf returns the text of a key below one of the groups, or the key itself.
function textOf(groups, key) {
  const group = groups.find((g) => has(`${g}.${key}`));
  return group ? t(`${group}.${key}`) : key;
}

// valueOf returns a value of a change: a quoted text as it is; times, words and phrases in the visitor's language.
function valueOf(value) {
  if (value.startsWith('"')) return value;
  if (time.test(value)) return stamp(value);
  return value.split(", ").map((part) => textOf(["audit.value", "voucher.entry", "voucher"], detailOf(part)[0])).join(" · ");
}

// auditDetailOf returns the detail of an entry of the audit log as lines. A reason is shown as it is:
// a text of staff must not look like something else.
export function auditDetailOf({ action, detail }) {
  if (["change_stock", "return_outside", "close_notice", "undo_redeem"].includes(action)) return [detail];
  const changes = [...detail.matchAll(change)];
  const rest = detail.replace(change, "").replace(/^; /, "");
  return [
    ...(rest ? [detailOf(rest)[0]] : []),
    ...changes.map(([, field, was, is]) => t("audit.change", { field: textOf(["audit.field", "voucher", "shop", "room"], field), was: valueOf(was), is: valueOf(is) })),
  ];
}

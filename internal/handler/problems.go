package handler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"seckill/internal/service"
)

// problemsPath is where the page of each code is, and with the code the type of its problem: a relative reference (RFC
// 9457, 3.1.1), which resolves against the address that was asked.
const problemsPath = "/problems/"

// Problem explains a code of the API to who meets it, in English and in Chinese: what it means, and what to do.
type Problem struct {
	Code          string
	Status        int
	Title         string // as the API has it
	TitleZH       string
	Means, Do     string
	MeansZH, DoZH string
	Example       string   // a body
	RetryAfter    bool     // the header says when to ask again
	Routes        []string // what answers it, as "POST /api/v1/vouchers/{id}/orders"
}

// explained is the text of the page of an error's code.
type explained struct {
	err           error // one that is answered with the code
	titleZH       string
	means, do     string
	meansZH, doZH string
}

// explanations has a row for every code, in the order of their statuses. Code, status and title are the error's own.
var explanations = []explained{
	{
		service.Invalid("phone", "is required"), "请求无效",
		"Something is wrong with the request itself: a field is missing, unknown or out of its range, a number in the path or the query is not one, or the body is no JSON object or larger than 64 KiB. Nothing was changed.",
		"Do not send it again as it is. `errors` names each field and what is wrong with it: show that beside the field if a person filled it in, and treat it as a fault of the client otherwise.",
		"请求本身有误：字段缺失、未知或超出范围，路径或查询里的数字不合法，请求体不是 JSON 对象或超过 64 KiB。没有产生任何变更。",
		"不要原样重发。`errors` 列出了每个有误的字段和原因：如果是用户填写的，就显示在该字段旁边；否则说明客户端有缺陷。",
	},
	{
		service.ErrUnauthenticated, "请先登录",
		"There is no valid proof of who asks: no access token, one that is forged or whose session has ended, a login code that is wrong, used up or expired, a refresh token that is wrong or used already, or, from a payment provider, a signature that is wrong or older than five minutes.",
		"Ask the person to log in: `POST /api/v1/auth/code`, then `POST /api/v1/auth/login`. After a wrong login code let them type it again; after five guesses a new one must be sent. Do not repeat the request with the same token.",
		"没有有效的身份凭证：缺少访问令牌，令牌是伪造的或会话已结束，验证码错误、已用或已过期，刷新令牌错误或已被使用；对支付渠道而言，则是签名错误或超过五分钟。",
		"请用户登录：先 `POST /api/v1/auth/code`，再 `POST /api/v1/auth/login`。验证码输错可以再输，五次之后必须重新发送。不要用同一个令牌重发请求。",
	},
	{
		service.ErrTokenExpired, "访问令牌已过期",
		"The access token was good and is too old now: it lasts 15 minutes at most. The session may go on.",
		"Call `POST /api/v1/auth/refresh` once, then send the request again with the new token. The person need not know. If the refresh answers `unauthenticated`, ask for a new login.",
		"访问令牌本来有效，但已过期：它最长有效 15 分钟。会话可能仍在。",
		"调用一次 `POST /api/v1/auth/refresh`，再用新令牌重发请求，用户无需察觉。如果刷新得到 `unauthenticated`，请用户重新登录。",
	},
	{
		service.ErrForbidden, "没有权限",
		"The token is good, and its user may not do this: the route is for admins; or, with the title `Only in demo mode`, this server is no demo (`SECKILL_DEMO`) and has no crowd to send for anybody.",
		"Do not send it again. Show that it is not allowed, and hide the control. Admins are the phones of `SECKILL_ADMIN_PHONES`; who became one must log in again. A rush against a server that is no demo is sent from outside: `seckill rush`.",
		"令牌有效，但该用户不能执行此操作：这是管理员的接口；如果标题是 `Only in demo mode`，则说明本服务器不是演示环境（`SECKILL_DEMO`），对任何人都不发起压测。",
		"不要重发。提示没有权限，并隐藏相应入口。管理员由 `SECKILL_ADMIN_PHONES` 里的手机号确定；新设为管理员的用户需要重新登录。对非演示环境的压测请在外部运行 `seckill rush`。",
	},
	{
		service.ErrNotFound, "不存在",
		"There is no such thing, or it is somebody else's: the order of another user is answered like one that does not exist. A route or a method that the API does not have answers this as well.",
		"Do not send it again. Say that it is not there, and go back to the list. While an order that was answered 202 is looked for, 404 means that it was lost before it was stored: its unit is on sale again.",
		"该对象不存在，或者属于别人：别人的订单与不存在的订单回答相同。接口没有的路径或方法也得到这个回答。",
		"不要重发。提示内容不存在，并返回列表。查询一个曾得到 202 的订单时，404 表示它在入库之前丢失，名额已重新开售。",
	},
	{
		service.ErrInvalidState, "当前状态下无法操作",
		"The order or the voucher exists, and its present state does not allow this: an order that is paid already cannot be paid or cancelled, only a paid one can be redeemed or refunded, and a voucher without a sale, or one that is off, cannot be bought. Nothing was changed.",
		"Do not send it again. Read the object (`GET /api/v1/orders/{id}` or `GET /api/v1/vouchers/{id}`) and show its state: somebody else, another tab or the deadline was faster.",
		"订单或优惠券存在，但当前状态不允许此操作：已支付的订单不能再支付或取消，只有已支付的才能核销或退款，没有秒杀或已下架的优惠券不能购买。没有产生任何变更。",
		"不要重发。重新读取该对象（`GET /api/v1/orders/{id}` 或 `GET /api/v1/vouchers/{id}`）并显示其状态：可能是别人、另一个页面或支付期限更早一步。",
	},
	{
		service.ErrSaleNotStarted, "秒杀尚未开始",
		"The purchase came before `begin_at`, by the server's clock.",
		"Show a countdown to `begin_at`, measured by the `server_time` of the voucher and not by the device's clock, and send the purchase when it is over.",
		"按服务器时钟，购买早于 `begin_at`。",
		"显示到 `begin_at` 的倒计时，以优惠券里的 `server_time` 为准而不是设备时钟，到点再发送购买请求。",
	},
	{
		service.ErrSaleEnded, "秒杀已经结束",
		"The purchase came after `end_at`, by the server's clock. Units that come back later are not sold any more.",
		"Do not send it again. Say that the sale is over.",
		"按服务器时钟，购买晚于 `end_at`。之后退回的名额不再出售。",
		"不要重发。提示秒杀已结束。",
	},
	{
		service.ErrSoldOut, "已抢光",
		"Every unit is held by an order. It is final for now, not for ever: a unit comes back when an order is cancelled, not paid in time or refunded, or when the merchant adds some.",
		"Do not repeat the purchase in a loop. Show that it is sold out, read the voucher every few seconds if the person waits, and offer the button again when its `state` is `on_sale`.",
		"所有名额都已被订单占用。这是眼下的结论，但不是永远的：订单取消、超时未付、退款，或商家补货，名额都会回来。",
		"不要循环重试。显示已抢光；如果用户愿意等，每隔几秒读取一次优惠券，`state` 变回 `on_sale` 时再放开按钮。",
	},
	{
		&service.DuplicateOrderError{OrderID: 3368803458027454465}, "你已经购买过了",
		"The user holds as many active orders of this voucher as the sale allows. It is also what a purchase hears that is sent again after its answer was lost: the order is there.",
		"Take it for a success. `order_id` is one of these orders: show it. Who wants to buy anew must cancel or refund it first.",
		"该用户持有的此优惠券有效订单已达上限。回答丢失后重发的购买请求也会得到它：订单其实已经存在。",
		"视为成功。`order_id` 就是其中一个订单：直接展示。想重新购买，需要先取消或退款。",
	},
	{
		service.ErrOrderInProgress, "你的订单正在处理",
		"Another request of the same user, or the same request under its `Idempotency-Key`, is being worked on at this moment. Which of them gets the order is not known yet.",
		"Wait for `Retry-After` seconds and send it again, with the same `Idempotency-Key` if it had one. Show that the order is in progress.",
		"同一用户的另一个请求，或同一 `Idempotency-Key` 下的同一请求，此刻正在处理，结果尚不确定。",
		"等待 `Retry-After` 秒后重发；如果带有 `Idempotency-Key`，保持不变。提示订单正在处理。",
	},
	{
		service.ErrIdempotencyMismatch, "该键已用于另一个请求",
		"The `Idempotency-Key` was used within the last 24 hours for another path or another body. Nothing was changed.",
		"Do not send it again under this key. It is a fault of the client: one intent has one key, and a new intent a new one, such as a UUID.",
		"这个 `Idempotency-Key` 在过去 24 小时内用于另一个路径或请求体。没有产生任何变更。",
		"不要用这个键重发。这是客户端的缺陷：一个意图一个键，新的意图要用新的键，例如 UUID。",
	},
	{
		&service.RateLimitedError{RetryAfter: time.Second}, "请求太频繁",
		"This caller asks too often: purchases and open streams are limited for each user, login codes for each phone, and codes and logins for each address. Nothing was changed.",
		"Wait for `Retry-After` seconds, with a little chance added, and send it again under the same `Idempotency-Key`. Show how long it takes. Pressing faster does not help.",
		"调用方请求过于频繁：购买和事件流按用户限制，验证码按手机号限制，验证码和登录还按地址限制。没有产生任何变更。",
		"等待 `Retry-After` 秒并加一点随机时间，再用同一个 `Idempotency-Key` 重发，同时显示剩余时间。点得更快没有用。",
	},
	{
		service.ErrOverloaded, "此刻人太多了",
		"The server works on as many purchases, or keeps as many streams open, as it can, and refused this one before it did anything. The sale goes on.",
		"Wait for `Retry-After` seconds, with some chance added so that not everybody comes back at once, and send it again under the same `Idempotency-Key`. Show that very many people are buying.",
		"服务器正在处理的购买或保持的事件流已达上限，在做任何事之前就拒绝了这个请求。秒杀仍在继续。",
		"等待 `Retry-After` 秒并加上随机时间，避免大家同时回来，再用同一个 `Idempotency-Key` 重发。提示现在人非常多。",
	},
	{
		service.ErrUnavailable, "依赖的服务没有应答",
		"The database, Redis or the payment provider does not answer. As far as is known nothing was changed; in the rare case that the last word of the database was lost, it was.",
		"Wait for `Retry-After` seconds and send it again, with the same `Idempotency-Key`: then it happens once, whatever was lost. Without a key, a repeated purchase answers `duplicate_order` if the first one succeeded. Operators look at `/readyz` and at the log.",
		"数据库、Redis 或支付渠道没有应答。就目前所知没有产生变更；极少数情况下数据库的最后回答丢失，变更其实已生效。",
		"等待 `Retry-After` 秒，用同一个 `Idempotency-Key` 重发：无论丢失了什么，都只会生效一次。没有键时，若第一次其实成功，重发的购买得到 `duplicate_order`。运维人员请查看 `/readyz` 和日志。",
	},
	{
		errPanic, "内部错误",
		"A fault of the server. The answer tells nothing of it; the log has it under the `request_id`.",
		"Say that something went wrong on the server, show the `request_id`, and let the person try once more: with an `Idempotency-Key` that is safe. Do not repeat it in a loop. Operators find the cause in the log by the `request_id`.",
		"服务器出错。回答里不透露细节，日志里以 `request_id` 记录了原因。",
		"提示服务器出了问题，显示 `request_id`，让用户再试一次：带 `Idempotency-Key` 就是安全的。不要循环重试。运维人员可按 `request_id` 在日志里找到原因。",
	},
}

// Problems returns the pages of all codes. Error: the document cannot be read.
func Problems() ([]Problem, error) {
	routes, err := answeredBy(openAPI)
	if err != nil {
		return nil, err
	}
	all := make([]Problem, len(explanations))
	for i, x := range explanations {
		p, retryAfter := problemOf(x.err)
		p.RequestID = "JBSWY3DPEHPK3PXPJBSWY3DPEH"
		var example bytes.Buffer
		if err := json.Indent(&example, appendProblem(nil, &p), "", "  "); err != nil {
			return nil, err
		}
		all[i] = Problem{
			Code: p.Code, Status: p.Status, Title: p.Title, TitleZH: x.titleZH, Means: x.means, Do: x.do,
			MeansZH: x.meansZH, DoZH: x.doZH, Example: example.String(), RetryAfter: retryAfter > 0, Routes: routes[p.Code],
		}
	}
	return all, nil
}

// The parts of the document that say which operation answers which code.
type (
	docSchema struct {
		Ref        string      `json:"$ref"`
		OneOf      []docSchema `json:"oneOf"`
		AnyOf      []docSchema `json:"anyOf"`
		Properties struct {
			Code struct{ Enum []string }
		}
	}
	docResponse struct {
		Ref     string `json:"$ref"`
		Content map[string]struct{ Schema docSchema }
	}
	document struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Schemas   map[string]json.RawMessage
			Responses map[string]docResponse
		}
	}
)

// answeredBy lists the operations that answer each code, in the order of their paths.
func answeredBy(text []byte) (map[string][]string, error) {
	var doc document
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("openapi.json: %w", err)
	}
	routes := map[string][]string{}
	for path, item := range doc.Paths {
		for method, raw := range item {
			if method == "parameters" {
				continue
			}
			var op struct{ Responses map[string]docResponse }
			if err := json.Unmarshal(raw, &op); err != nil {
				return nil, fmt.Errorf("openapi.json: %s %s: %w", method, path, err)
			}
			for _, r := range op.Responses {
				if name, ok := strings.CutPrefix(r.Ref, "#/components/responses/"); ok {
					r = doc.Components.Responses[name]
				}
				codes, err := doc.codes(r.Content["application/problem+json"].Schema)
				if err != nil {
					return nil, err
				}
				for _, code := range codes {
					routes[code] = append(routes[code], strings.ToUpper(method)+" "+path)
				}
			}
		}
	}
	for _, list := range routes {
		slices.SortFunc(list, func(a, b string) int {
			methodA, pathA, _ := strings.Cut(a, " ")
			methodB, pathB, _ := strings.Cut(b, " ")
			return strings.Compare(pathA+" "+methodA, pathB+" "+methodB)
		})
	}
	return routes, nil
}

// codes are those that a schema allows.
func (d *document) codes(s docSchema) ([]string, error) {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		s = docSchema{}
		if err := json.Unmarshal(d.Components.Schemas[name], &s); err != nil {
			return nil, fmt.Errorf("openapi.json: %s: %w", name, err)
		}
	}
	codes := s.Properties.Code.Enum
	for _, one := range slices.Concat(s.OneOf, s.AnyOf) {
		more, err := d.codes(one)
		if err != nil {
			return nil, err
		}
		codes = append(codes, more...)
	}
	return codes, nil
}

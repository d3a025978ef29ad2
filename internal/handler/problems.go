package handler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"seckill/internal/domain"
)

// problemsPath is the path of the pages about codes. With a code appended it is the type of a problem: a relative
// reference (RFC 9457, 3.1.1), which resolves against the URL of the request.
const problemsPath = "/problems/"

// Problem explains a code of the API in English and Chinese: what it means and how a client handles it.
type Problem struct {
	Code   string
	Status int
	// As in answers of the API.
	Title         string
	TitleZH       string
	Means, Do     string
	MeansZH, DoZH string
	// An indented JSON body.
	Example string
	// Whether answers have the header Retry-After.
	RetryAfter bool
	// Operations that return the code, such as "POST /api/v1/vouchers/{id}/orders".
	Routes []string
}

type explanation struct {
	// An error with the code.
	err           error
	titleZH       string
	means, do     string
	meansZH, doZH string
}

// explanations has a row for every code, ordered by status. Code, status and title come from the error.
var explanations = []explanation{
	{
		domain.Invalid("phone", "is required"), "请求无效",
		"The request itself is wrong: a field is missing, unknown or out of range, a number in the path or the query is malformed, or the body is not a JSON object or exceeds 64 KiB. Nothing was changed.",
		"Do not repeat the request unchanged. `errors` lists each wrong field with the reason: show it next to the field if a person filled it in, and treat it as a bug of the client otherwise.",
		"请求本身有误：字段缺失、未知或超出范围，路径或查询里的数字不合法，请求体不是 JSON 对象或超过 64 KiB。没有产生任何变更。",
		"不要原样重发。`errors` 列出了每个有误的字段和原因：如果是用户填写的，就显示在该字段旁边；否则说明客户端有缺陷。",
	},
	{
		domain.ErrUnauthenticated, "请先登录",
		"The request has no valid credentials: the access token is missing or forged, or its session has ended; the login code is wrong, used up, expired or that of another `login_id`; the refresh token is wrong or used already; or, from a payment provider, the signature is wrong or older than five minutes.",
		"Let the user log in: `POST /api/v1/auth/code`, then `POST /api/v1/auth/login`. A wrong login code can be entered again; after five guesses a new code must be sent. Do not repeat the request with the same token.",
		"没有有效的身份凭证：缺少访问令牌，令牌是伪造的或会话已结束，验证码错误、已用、已过期或不属于该 `login_id`，刷新令牌错误或已被使用；对支付渠道而言，则是签名错误或超过五分钟。",
		"请用户登录：先 `POST /api/v1/auth/code`，再 `POST /api/v1/auth/login`。验证码输错可以再输，五次之后必须重新发送。不要用同一个令牌重发请求。",
	},
	{
		domain.ErrTOTPRequired, "需要动态验证码",
		"The login code is right, but the user's role needs a second factor outside demo mode, and `totp` is missing, wrong or used up: each password of the authenticator app is accepted once. The login code remains valid; a wrong `totp` counts as one of its five guesses.",
		"Prompt for the six digits of the authenticator app, and repeat `POST /api/v1/auth/login` with the same code and the `totp`. If the app is lost, `seckill admin enroll` on the server replaces it.",
		"登录验证码正确，但该用户的角色在非演示环境下还需要第二重验证，而 `totp` 缺失、错误或已使用过：动态验证码每个只能用一次。登录验证码仍然有效；`totp` 输错会计入其五次机会。",
		"请用户输入身份验证器应用上的六位数字，用同一个验证码加上 `totp` 重发 `POST /api/v1/auth/login`。如果应用已丢失，请在服务器上运行 `seckill admin enroll` 重新绑定。",
	},
	{
		domain.ErrTokenExpired, "访问令牌已过期",
		"The access token was valid and has expired: it lasts at most 15 minutes. The session may still be valid.",
		"Call `POST /api/v1/auth/refresh` once, then repeat the request with the new token, without involving the user. If the refresh returns `unauthenticated`, require a new login.",
		"访问令牌本来有效，但已过期：它最长有效 15 分钟。会话可能仍在。",
		"调用一次 `POST /api/v1/auth/refresh`，再用新令牌重发请求，用户无需察觉。如果刷新返回 `unauthenticated`，请用户重新登录。",
	},
	{
		domain.ErrForbidden, "没有权限",
		"The token is valid, but the role of its user lacks the permission that the route needs (`permissions` in `GET /api/v1/me`). With the title `Not allowed from another site`, a browser sent the request on behalf of a page of another origin (`Sec-Fetch-Site`, `Origin`). With the title `The second factor must be enrolled again`, the server no longer has the secret with which it encrypted the user's second factor. With the title `Only in demo mode`, the server does not run in demo mode (`SECKILL_DEMO`), which load simulations require. With the title `Not under this host name`, a demo on a loopback address was requested under a DNS name, as by a web page whose name was changed to resolve to 127.0.0.1.",
		"Do not repeat the request. Report the missing permission and hide the control. Serve pages and API from one origin, with a proxy that keeps the `Host` header. `seckill admin enroll` gives roles and replaces second factors, and the phones in `SECKILL_ADMIN_PHONES` are admins. Outside demo mode, roles above viewer take effect only in sessions that were opened with a second factor. To simulate load on a server outside demo mode, run `seckill rush` from another machine. Open such a demo as `localhost` or by its address.",
		"令牌有效，但该用户的角色没有此接口所需的权限（见 `GET /api/v1/me` 的 `permissions`）；如果标题是 `Not allowed from another site`，则说明请求是浏览器替其他来源的网页发出的（`Sec-Fetch-Site`、`Origin`）；如果标题是 `The second factor must be enrolled again`，则说明加密该用户第二重验证所用的密钥已被移除；如果标题是 `Only in demo mode`，则说明本服务器不是演示环境（`SECKILL_DEMO`），不提供压测功能；如果标题是 `Not under this host name`，则说明请求用域名访问了只监听本机的演示环境（可能是网页的 DNS 重绑定攻击）。",
		"不要重发。提示没有权限，并隐藏相应入口。网页和接口须同源，代理须保留 `Host` 请求头。角色由 `seckill admin enroll` 授予，第二重验证也由它重新绑定，`SECKILL_ADMIN_PHONES` 里的手机号是管理员。非演示环境下，高于 viewer 的角色只在通过第二重验证登录的会话中生效。对非演示环境的压测请在外部运行 `seckill rush`。本机的演示环境请用 `localhost` 或 IP 地址打开。",
	},
	{
		domain.ErrEntryRequired, "需要入场凭证",
		"The sale admits only purchases with a valid entry pass (`entry.mode` is `pass`), and the header `X-Entry-Pass` has none: the pass is missing or forged, it belongs to another user or another sale, or it has expired or was revoked. Nothing was changed.",
		"Call `POST /api/v1/vouchers/{id}/entry` once and repeat the purchase with the new pass and the same `Idempotency-Key`. If the repetition is refused, too, show the reason instead of repeating it in a loop.",
		"该秒杀只接受带有效入场凭证的购买请求（`entry.mode` 为 `pass`），而请求头 `X-Entry-Pass` 里没有：凭证缺失或系伪造，属于其他用户或其他秒杀，已过期或已被作废。没有产生任何变更。",
		"调用一次 `POST /api/v1/vouchers/{id}/entry`，用新凭证和同一个 `Idempotency-Key` 重发购买请求。如果仍被拒绝，显示原因，不要循环重试。",
	},
	{
		&domain.ChallengeRequiredError{Reason: "the request has no solution", Challenge: json.RawMessage(
			`{"parameters":{"algorithm":"PBKDF2/SHA-256","cost":5000,"data":{"keySignature":"d9fa7eed","user":"1001","voucher":"2"},` +
				`"expiresAt":1794398520,"keyLength":32,"keyPrefix":"032f4551","nonce":"00112233","salt":"0f1e2d3c"},"signature":"c8522d27"}`,
		)}, "需要完成安全检测",
		"The sale admits only buyers whose device has solved a proof of work (`entry.challenge` is `on`), and `solution` is missing, malformed, forged, wrong, expired or used up, or it belongs to another user or another sale. Nothing was changed.",
		"Solve `challenge` (in the form of ALTCHA v2; the values in this example are shortened) and repeat the request with the `solution`, which is valid for at most 120 seconds and works once. Solve it before the sale starts: until then the answer is `sale_not_started`, which does not use the solution up. Give up after a few refusals.",
		"该秒杀只接受设备已完成工作量证明的用户（`entry.challenge` 为 `on`），而请求中的 `solution` 缺失、格式有误、系伪造、答案错误、已过期或已使用过，或者属于其他用户或其他秒杀。没有产生任何变更。",
		"解出 `challenge`（ALTCHA v2 格式，此处示例中的值有缩短），带上 `solution` 重发请求；它最长有效 120 秒，只能使用一次。请在开抢前解好：开抢前返回 `sale_not_started`，不会消耗 solution。多次被拒后不要再试。",
	},
	{
		errMethodNotAllowed, "请求方法不对",
		"The address exists, but not with this method. The header `Allow` lists its methods. HEAD is answered wherever GET is.",
		"This is a bug of the client: use a method of the list.",
		"该路径存在，但不支持此请求方法；响应头 `Allow` 列出了支持的方法。凡支持 GET 的路径都支持 HEAD。",
		"这是客户端的缺陷：请改用列出的方法。",
	},
	{
		domain.ErrNotFound, "不存在",
		"The object does not exist, belongs to another user, or is a voucher that is not published: all cases return the same answer. Routes that the API does not have return it, too.",
		"Do not repeat the request. Report that the object does not exist, and return to the list. For an order that was accepted with 202, 404 means that it was lost before it was stored: its unit is for sale again.",
		"该对象不存在、属于其他用户，或者是未上架的优惠券：几种情况返回相同的响应。不存在的路径也返回此错误码。",
		"不要重发。提示内容不存在，并返回列表。查询一个曾返回 202 的订单时，404 表示它在入库之前丢失，名额已重新开售。",
	},
	{
		domain.ErrInvalidState, "当前状态下无法操作",
		"The state of the order or the voucher does not allow this: a paid order cannot be paid again or cancelled, only a paid order can be redeemed or refunded, and a voucher without a flash sale cannot be bought. A draft that is not ready to be published has its problems in `errors`. Nothing was changed.",
		"Do not repeat the request. Read the object (`GET /api/v1/orders/{id}` or `GET /api/v1/vouchers/{id}`) and show its state: another user, another tab or the payment deadline has changed it.",
		"订单或优惠券存在，但当前状态不允许此操作：已支付的订单不能再支付或取消，只有已支付的才能核销或退款，没有秒杀的优惠券不能购买。草稿未达到发布条件时，问题列在 `errors` 中。没有产生任何变更。",
		"不要重发。重新读取该对象（`GET /api/v1/orders/{id}` 或 `GET /api/v1/vouchers/{id}`）并显示其状态：可能已被其他用户、另一个页面或支付超时改变。",
	},
	{
		domain.ErrSaleNotStarted, "秒杀尚未开始",
		"The purchase arrived before `begin_at`, by the server's clock.",
		"Show a countdown to `begin_at`, based on the voucher's `server_time` rather than on the device's clock, and send the purchase when it ends.",
		"按服务器时钟，购买早于 `begin_at`。",
		"显示到 `begin_at` 的倒计时，以优惠券里的 `server_time` 为准而不是设备时钟，到点再发送购买请求。",
	},
	{
		domain.ErrSaleEnded, "秒杀已经结束",
		"The purchase arrived at or after `end_at`, by the server's clock. Units that are returned later are not sold.",
		"Do not repeat the request. Show that the sale is over.",
		"按服务器时钟，购买不早于 `end_at`。之后退回的名额不再出售。",
		"不要重发。提示秒杀已结束。",
	},
	{
		domain.ErrSoldOut, "已抢光",
		"Active orders hold every unit. This can change: a unit becomes available when an order is cancelled, not paid in time or refunded, or when the merchant adds units.",
		"Do not repeat the purchase in a loop. Show that the sale is sold out, poll the voucher every few seconds while the user waits, and enable the button again when `state` is `on_sale`.",
		"所有名额都已被有效订单占用。这一状态可能改变：订单取消、超时未付、退款或商家补货后，会重新有名额。",
		"不要循环重试。显示已抢光；如果用户愿意等，每隔几秒读取一次优惠券，`state` 变回 `on_sale` 时再放开按钮。",
	},
	{
		&domain.DuplicateOrderError{OrderID: 3368803458027454465}, "你已经购买过了",
		"The user has as many active orders of this voucher as the sale allows. A purchase that is repeated after its answer was lost returns this code, too: the order exists.",
		"Treat it as a success. `order_id` is one of these orders: show it. To buy again, the user must cancel or refund it first.",
		"该用户持有的此优惠券有效订单已达上限。响应丢失后重发的购买请求也会返回此错误码：订单其实已经存在。",
		"视为成功。`order_id` 就是其中一个订单：直接展示。想重新购买，需要先取消或退款。",
	},
	{
		domain.ErrUnpaidLimit, "未支付的订单过多",
		"The user leaves orders unpaid. Either as many orders of this sale expired unpaid as its `unpaid_limit` allows; or the user has too many unpaid orders over all sales: five at the request of a pass, or at the purchase in a sale without passes that has an `unpaid_limit`; fifty at the purchase in a sale without `unpaid_limit`. `detail` names the reason. Nothing was changed.",
		"Do not repeat the request. Show the user's unpaid orders: the sale accepts the user again when they are paid, cancelled or expired. Orders of this sale that expired unpaid continue to count.",
		"该用户有订单未支付：要么该秒杀中超时未付的订单已达 `unpaid_limit`；要么所有秒杀中待支付的订单合计过多：领取入场凭证时（或购买设有 `unpaid_limit` 的无凭证秒杀时）上限为五个，购买未设 `unpaid_limit` 的秒杀时上限为五十个。`detail` 说明了原因。没有产生任何变更。",
		"不要重发。展示该用户的待支付订单：支付、取消或超时关闭之后，即可再次参与。该秒杀中超时未付的订单会一直计入。",
	},
	{
		domain.ErrOrderInProgress, "你的订单正在处理",
		"Another request of the same user, or the same request with its `Idempotency-Key`, is still running. Its outcome is not known yet.",
		"Wait for `Retry-After` seconds and repeat the request, with the same `Idempotency-Key` if it had one. Show that the order is in progress.",
		"同一用户的另一个请求，或同一 `Idempotency-Key` 下的同一请求，此刻正在处理，结果尚不确定。",
		"等待 `Retry-After` 秒后重发；如果带有 `Idempotency-Key`，保持不变。提示订单正在处理。",
	},
	{
		domain.ErrIdempotencyMismatch, "该键已用于另一个请求",
		"The `Idempotency-Key` was used within the last 24 hours for another path or another body. Nothing was changed.",
		"Do not repeat the request with this key. This is a bug of the client: each intent needs its own key, such as a UUID.",
		"这个 `Idempotency-Key` 在过去 24 小时内用于另一个路径或请求体。没有产生任何变更。",
		"不要用这个键重发。这是客户端的缺陷：一个意图一个键，新的意图要用新的键，例如 UUID。",
	},
	{
		&domain.RateLimitedError{RetryAfter: time.Second}, "请求太频繁",
		"The caller exceeded a rate limit: purchases, passes, reads, changes of orders and open streams are limited per user, login codes per phone, and codes, logins and searches without a login per address. Or the user cancelled unpaid orders of this sale and has to wait before the next one; `detail` says so. Nothing was changed.",
		"Wait for `Retry-After` seconds plus a short random time, and repeat the request with the same `Idempotency-Key`. Show the remaining time. More frequent requests do not help.",
		"调用方请求过于频繁：购买、领取入场凭证、查询、订单操作和事件流按用户限制，验证码按手机号限制，验证码、登录以及未登录的查询还按地址限制。也可能是该用户取消过该秒杀的待支付订单，需要等待一段时间才能再次下单，此时 `detail` 会说明。没有产生任何变更。",
		"等待 `Retry-After` 秒并加一点随机时间，再用同一个 `Idempotency-Key` 重发，同时显示剩余时间。更频繁地请求没有帮助。",
	},
	{
		domain.ErrOverloaded, "当前请求过多",
		"The server has reached its limit of concurrent purchases, reads or streams and refused the request before any work. The sale goes on.",
		"Wait for `Retry-After` seconds plus a random time, so that clients do not all return at once, and repeat the request with the same `Idempotency-Key`. Show that demand is very high.",
		"服务器并发的购买、查询或事件流已达上限，请求未经处理即被拒绝。秒杀仍在继续。",
		"等待 `Retry-After` 秒并加上随机时间，避免客户端同时重试，再用同一个 `Idempotency-Key` 重发。提示当前抢购人数很多。",
	},
	{
		domain.ErrUnavailable, "依赖的服务无响应",
		"The database, Redis or the payment provider does not respond. Usually nothing was changed; in the rare case that the database's reply to a commit was lost, the change took effect.",
		"Wait for `Retry-After` seconds and repeat the request with the same `Idempotency-Key`: it then takes effect exactly once. Without a key, a repeated purchase returns `duplicate_order` if the first one succeeded. Operators check `/readyz` and the log.",
		"数据库、Redis 或支付渠道没有响应。通常没有产生变更；极少数情况下数据库对提交的应答丢失，变更其实已生效。",
		"等待 `Retry-After` 秒，用同一个 `Idempotency-Key` 重发：请求只会生效一次。没有键时，若第一次其实成功，重发的购买返回 `duplicate_order`。运维人员请查看 `/readyz` 和日志。",
	},
	{
		errPanic, "内部错误",
		"The server failed unexpectedly. The answer has no details; the log records the cause with the `request_id`.",
		"Report a server error with the `request_id`, and let the user try once more: with an `Idempotency-Key` that is safe. Do not repeat the request in a loop. Operators find the cause in the log by the `request_id`.",
		"服务器出错。响应中没有细节，日志中按 `request_id` 记录了原因。",
		"提示服务器出了问题，显示 `request_id`，让用户再试一次：带 `Idempotency-Key` 就是安全的。不要循环重试。运维人员可按 `request_id` 在日志里找到原因。",
	},
}

// Problems returns the explanations of all codes, ordered by status. It fails if the embedded openapi.json is not
// valid.
func Problems() ([]Problem, error) {
	routes, err := documentedRoutes()
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
			Code:       p.Code,
			Status:     p.Status,
			Title:      p.Title,
			TitleZH:    x.titleZH,
			Means:      x.means,
			Do:         x.do,
			MeansZH:    x.meansZH,
			DoZH:       x.doZH,
			Example:    example.String(),
			RetryAfter: retryAfter > 0,
			Routes:     routes[p.Code],
		}
	}

	return all, nil
}

// The parts of the OpenAPI document from which routesByCode reads the codes of each operation.
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

// documentedRoutes is routesByCode of the embedded document, which takes 30 ms to parse.
var documentedRoutes = sync.OnceValues(func() (map[string][]string, error) { return routesByCode(openAPI) })

// routesByCode lists the operations that return each code, ordered by path.
func routesByCode(text []byte) (map[string][]string, error) {
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

// codes returns the codes that a schema allows.
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

package handler

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

// hmdpHandler serves the API of hm-dianping, a public teaching project, to that project's pages (docs/hmdp.md). Every
// answer has the same envelope. A business failure has status 200 and a message that the page displays. An answer 401
// has no body and makes the page open its login.
type hmdpHandler struct {
	*api

	lists     *voucherLists
	shopPages *answerCache[shopQuery]
}

func newHmdpHandler(a *api) *hmdpHandler {
	return &hmdpHandler{
		api:       a,
		lists:     newVoucherLists(a),
		shopPages: newAnswerCache[shopQuery](a, hmdpTimeout),
	}
}

// hmdpTimeout bounds a request of these pages. They time out after 2 s and then cannot display the reason.
const hmdpTimeout = 1700 * time.Millisecond

// routes registers each route with and without the prefix /api, which only some proxies in front of the pages strip.
func (h *hmdpHandler) routes(r *gin.Engine, purchases gin.HandlersChain) {
	user := h.limits.tokens(1, h.authenticate)
	operate := h.staff.permit(domain.MayOperate, user, h.fail)
	reads := limitConcurrency(maxReads, h.fail)
	for _, prefix := range []string{"", "/api"} {
		g := r.Group(prefix, withTimeout(hmdpTimeout), h.wrap(limitBody))
		g.POST("/user/code", h.wrap(h.sendCode))
		g.POST("/user/login", h.wrap(h.login))
		g.POST("/user/logout", h.wrap(user), h.wrap(h.logout))
		g.GET("/user/me", h.wrap(user), h.wrap(h.me))
		g.GET("/user/info/:id", h.wrap(h.noData))

		g.GET("/shop-type/list", h.wrap(h.shopTypes))
		g.GET("/shop/of/type", reads, h.wrap(h.shopsOfType))
		g.GET("/shop/:id", reads, h.wrap(byID(h.shop)))
		g.GET("/voucher/list/:id", h.wrap(byID(h.vouchersOfShop)))
		g.POST("/voucher", operate, h.wrap(h.createVoucher))
		g.POST("/voucher/seckill", operate, h.wrap(h.createSale))

		g.Group("", purchases...).POST("/voucher-order/seckill/:id", h.wrap(h.authenticate), h.wrap(perUser(h.limits.orders)), h.wrap(h.place))

		g.GET("/blog/hot", h.wrap(h.noBlogs))
		g.GET("/blog/of/me", h.wrap(h.noBlogs))
		g.GET("/blog/of/follow", h.wrap(h.noData))
	}
}

// hmdpOut is the envelope of an answer. The pages treat "data": null as data, so empty data is omitted.
type hmdpOut struct {
	Success  bool   `json:"success"`
	ErrorMsg string `json:"errorMsg,omitempty"`
	Data     any    `json:"data,omitempty"`
}

func (h *hmdpHandler) write(c *gin.Context, data any) error {
	return writeJSON(c, http.StatusOK, hmdpOut{Success: true, Data: data})
}

// noData answers routes of unsupported features for which the pages check whether data is present.
func (h *hmdpHandler) noData(c *gin.Context) error { return h.write(c, nil) }

// noBlogs answers routes of unsupported features for which the pages iterate over data without a check.
func (h *hmdpHandler) noBlogs(c *gin.Context) error { return h.write(c, []struct{}{}) }

// hmdpError is a failure that only these routes have. The page displays its text.
type hmdpError string

func (e hmdpError) Error() string { return string(e) }

// hmdpMessages are the messages that the page displays, by code of the API.
var hmdpMessages = map[string]string{
	"sale_not_started":  "秒杀尚未开始",
	"sale_ended":        "秒杀已经结束",
	"sold_out":          "库存不足",
	"duplicate_order":   "用户已经购买过一次了",
	"order_in_progress": "重复下单",
	"entry_required":    "该秒杀需要入场凭证，请在秒杀商城页面抢购",
	"unpaid_limit":      "未支付的订单过多，暂不能参与该秒杀",
	"rate_limited":      "操作太频繁，请稍后再试",
	"overloaded":        "抢购的人太多，请稍后再试",
	"forbidden":         "没有权限",
	"not_found":         "优惠券不存在",
	"invalid_state":     "该优惠券不是秒杀券",
	"unavailable":       "服务器异常",
	"internal":          "服务器异常",
}

func (h *hmdpHandler) wrap(f func(*gin.Context) error) gin.HandlerFunc {
	return func(c *gin.Context) {
		if err := f(c); err != nil {
			h.fail(c, err)
		}
	}
}

func (h *hmdpHandler) fail(c *gin.Context, err error) {
	c.Abort()

	if own, ok := errors.AsType[hmdpError](err); ok {
		writeFailure(c, http.StatusOK, string(own))
		return
	}

	if invalid, ok := errors.AsType[*domain.InvalidError](err); ok {
		writeFailure(c, http.StatusOK, invalidMessage(invalid))
		return
	}

	if errors.Is(err, domain.ErrWrongCode) {
		h.errors.security.observe(c, err)
		writeFailure(c, http.StatusOK, "验证码错误")
		return
	}

	p, retryAfter, ok := h.errors.classify(c, err)
	switch {
	case !ok:
	case p.Status == http.StatusUnauthorized:
		c.AbortWithStatus(http.StatusUnauthorized)
	case p.Status >= http.StatusInternalServerError && !errors.Is(err, domain.ErrOverloaded):
		if retryAfter > 0 {
			c.Header("Retry-After", strconv.Itoa(int(math.Ceil(retryAfter.Seconds()))))
		}
		writeFailure(c, p.Status, hmdpMessage(&p))
	default:
		writeFailure(c, http.StatusOK, hmdpMessage(&p))
	}
}

func writeFailure(c *gin.Context, status int, message string) {
	// A text always has a JSON form.
	_ = writeJSON(c, status, hmdpOut{ErrorMsg: message})
}

func hmdpMessage(p *problem) string { return cmp.Or(hmdpMessages[p.Code], p.Title) }

// hmdpFields maps field names of the API to the different names in the bodies of these routes.
var hmdpFields = map[string]string{
	"shop_id":      "shopId",
	"sub_title":    "subTitle",
	"pay_value":    "payValue",
	"actual_value": "actualValue",
	"begin_at":     "beginTime",
	"end_at":       "endTime",
}

func invalidMessage(e *domain.InvalidError) string {
	names := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		switch f.Field {
		case "phone":
			return "手机号格式错误！"
		case "code":
			return "验证码错误"
		}

		names[i] = f.Field
		if name, ok := hmdpFields[f.Field]; ok {
			names[i] = name
		}
	}

	return "参数错误：" + strings.Join(names, "、")
}

// formatTime formats a time in the zone of the pages, without the zone itself, and with milliseconds only if they are
// not zero.
func (h *hmdpHandler) formatTime(t time.Time) string {
	t = t.In(h.Zone)
	if t.Nanosecond() != 0 {
		return t.Format("2006-01-02T15:04:05.000")
	}
	return t.Format("2006-01-02T15:04:05")
}

// parseTime parses a time in the zone of the pages; seconds are optional. A time that the end of summer time repeats is the
// first of both, as in browsers. The error names the field.
func (h *hmdpHandler) parseTime(field string, text *string) (*time.Time, error) {
	if text == nil {
		return nil, nil
	}

	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04"} {
		written, err := time.Parse(layout, *text)
		if err != nil {
			continue
		}

		// The offset of the day before is the first, where the end of summer time repeats a time.
		for _, days := range []int{-1, 1} {
			_, offset := written.AddDate(0, 0, days).In(h.Zone).Zone()
			t := written.Add(-time.Duration(offset) * time.Second).In(h.Zone)
			if t.Format(layout) == written.Format(layout) {
				return &t, nil
			}
		}

		// The start of summer time skips it.
		return nil, domain.Invalid(field, "does not exist in the zone %s", h.Zone)
	}

	return nil, domain.Invalid(field, "must be a time such as 2026-11-11T20:00:00")
}

// bindLenient is bind for these pages: it ignores unknown fields.
func bindLenient(c *gin.Context, dst any) error { return decode(c, dst, func(*json.Decoder) {}) }

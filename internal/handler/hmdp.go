package handler

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/maypok86/otter/v2"

	"seckill/internal/auth"
	"seckill/internal/service"
)

// hmdpHandler serves the pages of hm-dianping, a public teaching project, as its own backend does (docs/hmdp.md): one
// envelope for everything, business failures with status 200 and a message that the page shows as it is, 401 without
// a body, which sends the page to its login.
type hmdpHandler struct {
	errors   *errorWriter
	auth     *auth.Service
	shops    service.ShopStore
	vouchers *service.Vouchers
	orders   *service.Orders
	zone     *time.Location // of the times, which these pages write without one
	demo     bool
	now      func() time.Time
	lists    snapshots[int64, *service.Catalog] // by shop

	shopPages *otter.Cache[shopQuery, []byte]
}

// hmdpPatience is how long these pages may wait: they give up after 2 s, and then cannot say what was wrong.
const hmdpPatience = 1700 * time.Millisecond

// routes adds the routes. The pages' proxy strips /api, but not everybody's does.
func (h *hmdpHandler) routes(r *gin.Engine, limits *limits, counted gin.HandlerFunc) {
	user, admin, visitor := h.wrap(h.authenticate), h.wrap(h.admin), h.wrap(h.visitor)
	reads := shed(maxReads, h.fail)
	for _, prefix := range []string{"", "/api"} {
		g := r.Group(prefix, within(hmdpPatience), h.wrap(limitBody))
		g.POST("/user/code", h.wrap(limits.codes), h.wrap(h.sendCode))
		g.POST("/user/login", h.wrap(limits.logins), h.wrap(h.login))
		g.POST("/user/logout", user, h.wrap(h.logout))
		g.GET("/user/me", user, h.wrap(h.me))
		g.GET("/user/info/:id", visitor, h.wrap(h.nothing))

		g.GET("/shop-type/list", visitor, h.wrap(h.shopTypes))
		g.GET("/shop/of/type", visitor, reads, h.wrap(h.shopsOfType))
		g.GET("/shop/:id", visitor, reads, h.wrap(h.shop))
		g.GET("/voucher/list/:id", visitor, h.wrap(h.vouchersOfShop))
		g.POST("/voucher", admin, h.wrap(h.createVoucher))
		g.POST("/voucher/seckill", admin, h.wrap(h.createSale))

		g.POST("/voucher-order/seckill/:id", counted, user, h.wrap(limits.orders), h.wrap(h.place))

		g.GET("/blog/hot", visitor, h.wrap(h.noBlogs))
		g.GET("/blog/of/me", visitor, h.wrap(h.noBlogs))
		g.GET("/blog/of/follow", visitor, h.wrap(h.nothing))
	}
}

// hmdpOut is the envelope of an answer that went well. The pages take "data": null for something, so it is left out.
type hmdpOut struct {
	Success bool `json:"success"`
	Data    any  `json:"data,omitempty"`
}

func (h *hmdpHandler) write(c *gin.Context, data any) error {
	return writeJSON(c, http.StatusOK, hmdpOut{Success: true, Data: data})
}

// nothing is the answer to what is not served and the pages ask for all the same: they look whether there are data.
func (h *hmdpHandler) nothing(c *gin.Context) error { return h.write(c, nil) }

// noBlogs is that to lists which the pages walk through without looking.
func (h *hmdpHandler) noBlogs(c *gin.Context) error { return h.write(c, []struct{}{}) }

// hmdpError is a failure of these routes alone. The text is for the person in front of the page.
type hmdpError string

func (e hmdpError) Error() string { return string(e) }

// hmdpMessages are what a person hears for each code of the API.
var hmdpMessages = map[string]string{
	"sale_not_started":  "秒杀尚未开始",
	"sale_ended":        "秒杀已经结束",
	"sold_out":          "库存不足",
	"duplicate_order":   "用户已经购买过一次了",
	"order_in_progress": "重复下单",
	"rate_limited":      "操作太频繁，请稍后再试",
	"overloaded":        "抢购的人太多，请稍后再试",
	"forbidden":         "没有权限",
	"not_found":         "优惠券不存在",
	"invalid_state":     "该优惠券不是秒杀券",
	"unavailable":       "服务器异常",
	"internal":          "服务器异常",
}

// hmdpFailures are the answers of these messages, written once: at the end of a sale nearly everybody gets one.
var hmdpFailures = func() map[string][]byte {
	bodies := make(map[string][]byte, len(hmdpMessages))
	for code, message := range hmdpMessages {
		bodies[code] = hmdpFailure(message)
	}
	return bodies
}()

func hmdpFailure(message string) []byte {
	return append(appendString([]byte(`{"success":false,"errorMsg":`), message), '}')
}

// wrap adapts a handler or a middleware: on an error the answer is written and the chain ends.
func (h *hmdpHandler) wrap(f func(*gin.Context) error) gin.HandlerFunc {
	return func(c *gin.Context) {
		if err := f(c); err != nil {
			h.fail(c, err)
		}
	}
}

func (h *hmdpHandler) fail(c *gin.Context, err error) {
	c.Abort()
	var (
		own     hmdpError
		invalid *service.InvalidError
	)
	switch {
	case errors.As(err, &own):
		writeBody(c, http.StatusOK, jsonType, hmdpFailure(string(own)))
		return
	case errors.As(err, &invalid):
		writeBody(c, http.StatusOK, jsonType, hmdpFailure(hmdpComplaint(invalid)))
		return
	case errors.Is(err, service.ErrWrongCode):
		writeBody(c, http.StatusOK, jsonType, hmdpFailure("验证码错误"))
		return
	}
	p, retryAfter, heard := h.errors.judge(c, err)
	switch {
	case !heard:
	case p.Status == http.StatusUnauthorized:
		c.AbortWithStatus(http.StatusUnauthorized)
	case p.Status >= http.StatusInternalServerError && !errors.Is(err, service.ErrOverloaded):
		if retryAfter > 0 {
			c.Header("Retry-After", strconv.Itoa(int(math.Ceil(retryAfter.Seconds()))))
		}
		writeBody(c, p.Status, jsonType, hmdpRefusal(&p))
	default:
		writeBody(c, http.StatusOK, jsonType, hmdpRefusal(&p))
	}
}

// hmdpRefusal is the body for a problem of the API. One that has no message here is told in the API's words.
func hmdpRefusal(p *problem) []byte {
	if body, ok := hmdpFailures[p.Code]; ok {
		return body
	}
	return hmdpFailure(p.Title)
}

// hmdpNames are the names of fields in these routes' bodies where they are others than in the API.
var hmdpNames = map[string]string{
	"shop_id": "shopId", "sub_title": "subTitle", "pay_value": "payValue", "actual_value": "actualValue",
	"begin_at": "beginTime", "end_at": "endTime",
}

// hmdpComplaint says what is wrong with a request.
func hmdpComplaint(e *service.InvalidError) string {
	names := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		switch f.Field {
		case "phone":
			return "手机号格式错误！"
		case "code":
			return "验证码错误"
		}
		names[i] = f.Field
		if name, ok := hmdpNames[f.Field]; ok {
			names[i] = name
		}
	}
	return "参数错误：" + strings.Join(names, "、")
}

// formatTime writes a moment as these pages read it: without a zone, and without the fraction that hardly any has.
func (h *hmdpHandler) formatTime(t time.Time) string {
	t = t.In(h.zone)
	if t.Nanosecond() != 0 {
		return t.Format("2006-01-02T15:04:05.000")
	}
	return t.Format("2006-01-02T15:04:05")
}

// parseTime reads such a time; seconds may be left out. The field is for the complaint.
func (h *hmdpHandler) parseTime(field string, text *string) (*time.Time, error) {
	if text == nil {
		return nil, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if t, err := time.ParseInLocation(layout, *text, h.zone); err == nil {
			return &t, nil
		}
	}
	return nil, service.Invalid(field, "must be a time such as 2026-11-11T20:00:00")
}

// bindLoosely is bind for these pages, which send more than is read here.
func bindLoosely(c *gin.Context, dst any) error {
	dec, err := objectDecoder(c)
	if err != nil {
		return err
	}
	return decodeOne(dec, dst)
}

// Package hmdp serves the API of hm-dianping, a public teaching project, to that project's pages (docs/hmdp.md). Every
// answer has the same envelope. A business failure has status 200 and a message that the page displays. An answer 401
// has no body and makes the page open its login.
package hmdp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/service"
)

// Timeout bounds a request of these pages. They time out after 2 s and then cannot display the reason.
const Timeout = 1700 * time.Millisecond

// Config holds the services, and what these routes share with the REST API.
type Config struct {
	Auth     *auth.Service
	Vouchers *service.Vouchers
	Orders   *service.Orders
	Shops    domain.ShopStore
	// The zone of times, which the pages write without one.
	Zone *time.Location

	// Classify translates an error and records it. It returns false if the client has disconnected; the request has then
	// ended.
	Classify func(*gin.Context, error) (Failure, bool)
	// Bind decodes the body, which must be one JSON object, and ignores unknown fields. Error: *domain.InvalidError.
	Bind func(c *gin.Context, dst any) error
	// ByID passes the id in the path to a handler. Error: *domain.InvalidError.
	ByID func(handle func(c *gin.Context, id int64) error) func(*gin.Context) error
	// Caller returns the user that Middleware.User or Middleware.Purchase authenticated.
	Caller   func(*gin.Context) auth.Identity
	SendCode func(c *gin.Context, phone string) (auth.SentCode, error)
	// Login returns the token of a new session.
	Login func(c *gin.Context, phone, code string) (string, error)

	// Visit takes a token of the client's address for a read of the database. Error: *domain.RateLimitedError.
	Visit func(*gin.Context) error
	// WriteCached writes the answer of a key, which read returns if it is not cached.
	WriteCached func(c *gin.Context, key any, read func(context.Context) (any, error)) error
	// WriteVouchers writes a list of vouchers, which answer converts if it is not cached.
	WriteVouchers func(c *gin.Context, f domain.VoucherFilter, answer func([]*domain.Voucher) any) error
}

// Middleware is what handles a request before these routes. What it refuses, it answers by API.Fail.
type Middleware struct {
	// User refuses requests without a valid session, and Operator those of users that may not publish vouchers.
	User, Operator gin.HandlerFunc
	// Reads limits reads of the database.
	Reads gin.HandlerFunc
	// Purchase is User for purchases, with a limit of their own.
	Purchase gin.HandlersChain
}

// API serves the API of hm-dianping.
type API struct{ Config }

// New returns the API without routes.
func New(cfg Config) *API { return &API{cfg} }

// Routes registers the routes.
func (a *API) Routes(r gin.IRouter, m Middleware) {
	r.POST("/user/code", a.Wrap(a.sendCode))
	r.POST("/user/login", a.Wrap(a.login))
	r.POST("/user/logout", m.User, a.Wrap(a.logout))
	r.GET("/user/me", m.User, a.Wrap(a.me))
	r.GET("/user/info/:id", a.Wrap(noData))

	r.GET("/shop-type/list", a.Wrap(listShopTypes))
	r.GET("/shop/of/type", m.Reads, a.Wrap(a.shopsOfType))
	r.GET("/shop/:id", m.Reads, a.Wrap(a.ByID(a.shop)))
	r.GET("/voucher/list/:id", a.Wrap(a.ByID(a.vouchersOfShop)))
	r.POST("/voucher", m.Operator, a.Wrap(a.createVoucher))
	r.POST("/voucher/seckill", m.Operator, a.Wrap(a.createSale))

	r.Group("", m.Purchase...).POST("/voucher-order/seckill/:id", a.Wrap(a.ByID(a.place)))

	r.GET("/blog/hot", a.Wrap(noBlogs))
	r.GET("/blog/of/me", a.Wrap(noBlogs))
	r.GET("/blog/of/follow", a.Wrap(noData))
}

// envelope is what every answer has. The pages treat "data": null as data, so empty data is omitted.
type envelope struct {
	Success  bool   `json:"success"`
	ErrorMsg string `json:"errorMsg,omitempty"`
	Data     any    `json:"data,omitempty"`
}

func success(data any) envelope { return envelope{Success: true, Data: data} }

func write(c *gin.Context, data any) error {
	c.JSON(http.StatusOK, success(data))
	return nil
}

// text is a string of a body, or a number or boolean, which Jackson, the course's decoder, converts to one.
type text string

// UnmarshalJSON implements json.Unmarshaler. Error: *json.UnmarshalTypeError, to which encoding/json adds the field.
func (t *text) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case '"':
		return json.Unmarshal(b, (*string)(t))
	case '{', '[':
		return &json.UnmarshalTypeError{Value: string(b), Type: reflect.TypeFor[text]()}
	case 'n':
		return nil
	}

	*t = text(b)
	return nil
}

// number is a whole number of a body, which may be written as a string, as for Jackson. The value is nil if it is null or "".
type number struct{ value *int64 }

// UnmarshalJSON implements json.Unmarshaler. Error: *json.UnmarshalTypeError, to which encoding/json adds the field.
func (n *number) UnmarshalJSON(b []byte) error {
	var digits text
	if err := digits.UnmarshalJSON(b); err != nil || digits == "" {
		return err
	}

	value, err := strconv.ParseInt(strings.TrimSpace(string(digits)), 10, 64)
	if err != nil {
		return &json.UnmarshalTypeError{Value: string(b), Type: reflect.TypeFor[int64]()}
	}

	n.value = &value
	return nil
}

// noData answers routes of unsupported features for which the pages check whether data is present.
func noData(c *gin.Context) error { return write(c, nil) }

// noBlogs answers routes of unsupported features for which the pages iterate over data without a check.
func noBlogs(c *gin.Context) error { return write(c, []struct{}{}) }

func (a *API) sendCode(c *gin.Context) error {
	phone := c.Query("phone")
	if abroad, ok := strings.CutPrefix(phone, " "); ok {
		// The page does not escape the + in the URL, where it stands for a space.
		phone = "+" + abroad
	}

	if _, err := a.SendCode(c, phone); err != nil {
		return err
	}
	return noData(c)
}

func (a *API) login(c *gin.Context) error {
	var in struct {
		Phone    text `json:"phone"`
		Code     text `json:"code"`
		Password text `json:"password"`
	}
	if err := a.Bind(c, &in); err != nil {
		return err
	}
	if in.Code == "" && in.Password != "" {
		return refusal("不支持密码登录，请使用验证码登录")
	}

	token, err := a.Login(c, string(in.Phone), string(in.Code))
	if err != nil {
		return err
	}
	return write(c, token)
}

func (a *API) logout(c *gin.Context) error {
	if err := a.Auth.Logout(c.Request.Context(), a.Caller(c)); err != nil {
		return err
	}
	return noData(c)
}

type userOut struct {
	ID       domain.ID `json:"id"`
	NickName string    `json:"nickName"`
	Icon     string    `json:"icon"`
}

func (a *API) me(c *gin.Context) error {
	u, err := a.Auth.Me(c.Request.Context(), a.Caller(c))
	if err != nil {
		return err
	}
	return write(c, userOut{
		ID:       domain.ID(u.ID),
		NickName: u.NickName,
		Icon:     u.Icon,
	})
}

// refusal is a failure that only these routes have. The page displays its text.
type refusal string

func (e refusal) Error() string { return string(e) }

// ErrCrossOrigin means that a page of another site sent the request.
var ErrCrossOrigin error = refusal("请求来自其他网站，已拒绝")

// Failure is what the REST API answers to an error.
type Failure struct {
	Code, Title string
	Status      int
	// Zero if waiting does not help.
	RetryAfter time.Duration
}

// Message is the text that the page displays.
func (f Failure) Message() string { return cmp.Or(messages[f.Code], f.Title) }

// messages are the texts that the page displays, by code of the REST API.
var messages = map[string]string{
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

// Wrap adapts a handler or a middleware: it writes the answer to an error and ends the chain.
func (a *API) Wrap(f func(*gin.Context) error) gin.HandlerFunc {
	return func(c *gin.Context) {
		if err := f(c); err != nil {
			a.Fail(c, err)
		}
	}
}

// Fail writes the answer to an error and ends the chain.
func (a *API) Fail(c *gin.Context, err error) {
	c.Abort()

	if own, ok := errors.AsType[refusal](err); ok {
		writeFailure(c, http.StatusOK, string(own))
		return
	}

	f, ok := a.Classify(c, err)
	invalid, isInvalid := errors.AsType[*domain.InvalidError](err)
	switch {
	case !ok:
	case isInvalid:
		writeFailure(c, http.StatusOK, invalidMessage(invalid))
	case errors.Is(err, domain.ErrWrongCode):
		writeFailure(c, http.StatusOK, wrongCode)
	case f.Status == http.StatusUnauthorized:
		c.AbortWithStatus(http.StatusUnauthorized)
	case f.Status >= http.StatusInternalServerError && !errors.Is(err, domain.ErrOverloaded):
		if f.RetryAfter > 0 {
			c.Header("Retry-After", strconv.Itoa(int(math.Ceil(f.RetryAfter.Seconds()))))
		}
		writeFailure(c, f.Status, f.Message())
	default:
		writeFailure(c, http.StatusOK, f.Message())
	}
}

func writeFailure(c *gin.Context, status int, message string) {
	c.JSON(status, envelope{ErrorMsg: message})
}

// fieldNames maps field names of the API to the different names in the bodies of these routes.
var fieldNames = map[string]string{
	"shop_id":      "shopId",
	"sub_title":    "subTitle",
	"pay_value":    "payValue",
	"actual_value": "actualValue",
	"begin_at":     "beginTime",
	"end_at":       "endTime",
}

const wrongCode = "验证码错误"

func invalidMessage(e *domain.InvalidError) string {
	names := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		switch f.Field {
		case "phone":
			return "手机号格式错误！"
		case "code":
			return wrongCode
		}

		names[i] = cmp.Or(fieldNames[f.Field], f.Field)
	}

	return "参数错误：" + strings.Join(names, "、")
}

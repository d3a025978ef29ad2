package handler

import (
	"cmp"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/auth"
	"seckill/internal/domain"
)

// hmdpTimeout bounds a request of these pages. They time out after 2 s and then cannot display the reason.
const hmdpTimeout = 1700 * time.Millisecond

// hmdpHandler serves the API of hm-dianping, a public teaching project, to that project's pages (docs/hmdp.md). Every
// answer has the same envelope. A business failure has status 200 and a message that the page displays. An answer 401
// has no body and makes the page open its login.
type hmdpHandler struct {
	*api

	shops *answerCache[hmdpShopKey]
	lists *voucherLists
}

func newHmdpHandler(a *api) *hmdpHandler {
	return &hmdpHandler{
		api:   a,
		shops: newAnswerCache[hmdpShopKey](a, hmdpTimeout),
		lists: newVoucherLists(a),
	}
}

// hmdp registers the routes of hm-dianping with and without the prefix /api, which only some proxies in front of the pages
// strip.
func (r *routes) hmdp(h *hmdpHandler, purchases gin.HandlersChain) {
	reads := limitConcurrency(maxReads, h.fail)
	authenticated := r.limits.tokens(1, h.requirePage)
	user := h.wrap(authenticated)
	operator := r.staff.permit(domain.MayOperate, authenticated, h.fail)
	purchase := slices.Concat(purchases, gin.HandlersChain{h.wrap(h.requirePage), h.wrap(perUser(r.limits.orders))})

	for _, prefix := range []string{"", "/api"} {
		g := r.engine.Group(prefix, withTimeout(hmdpTimeout), h.wrap(limitBody))

		g.POST("/user/code", h.wrap(h.sendCode))
		g.POST("/user/login", h.wrap(h.login))
		g.POST("/user/logout", user, h.wrap(h.logout))
		g.GET("/user/me", user, h.wrap(h.me))
		g.GET("/user/info/:id", h.wrap(noData))

		g.GET("/shop-type/list", h.wrap(listShopTypes))
		g.GET("/shop/of/type", reads, h.wrap(h.shopsOfType))
		g.GET("/shop/:id", reads, h.wrap(byID(h.shop)))
		g.GET("/voucher/list/:id", h.wrap(byID(h.vouchersOfShop)))
		g.POST("/voucher", operator, h.wrap(h.createVoucher))
		g.POST("/voucher/seckill", operator, h.wrap(h.createSale))

		g.Group("", purchase...).POST("/voucher-order/seckill/:id", h.wrap(byID(h.place)))

		g.GET("/blog/hot", h.wrap(noBlogs))
		g.GET("/blog/of/me", h.wrap(noBlogs))
		g.GET("/blog/of/follow", h.wrap(noData))
	}
}

// requirePage is require for the pages. The Authorization header holds the token from login, as the pages send it, or an
// access token of the REST API, as seckill seed writes them for the course's load test.
func (h *hmdpHandler) requirePage(c *gin.Context) error {
	token := cmp.Or(bearer(c), c.GetHeader("Authorization"))
	isJWT := strings.Count(token, ".") == 2

	var id auth.Identity
	var err error
	if isJWT || token == "" {
		id, err = h.Auth.Authenticate(token)
	} else {
		id, err = h.Auth.AuthenticatePage(c.Request.Context(), token)
	}
	if err != nil {
		return err
	}

	c.Set(identityKey, id)
	return nil
}

// envelope is what every answer has. The pages treat "data": null as data, so empty data is omitted.
type envelope struct {
	Success  bool   `json:"success"`
	ErrorMsg string `json:"errorMsg,omitempty"`
	Data     any    `json:"data,omitempty"`
}

func success(data any) envelope { return envelope{Success: true, Data: data} }

func writeSuccess(c *gin.Context, data any) error {
	c.JSON(http.StatusOK, success(data))
	return nil
}

// noData answers routes of unsupported features for which the pages check whether data is present.
func noData(c *gin.Context) error { return writeSuccess(c, nil) }

// noBlogs answers routes of unsupported features for which the pages iterate over data without a check.
func noBlogs(c *gin.Context) error { return writeSuccess(c, []struct{}{}) }

func (h *hmdpHandler) sendCode(c *gin.Context) error {
	phone := c.Query("phone")
	if abroad, ok := strings.CutPrefix(phone, " "); ok {
		// The page does not escape the + in the URL, where it stands for a space.
		phone = "+" + abroad
	}

	if _, err := h.send(c, phone); err != nil {
		return err
	}
	return noData(c)
}

func (h *hmdpHandler) login(c *gin.Context) error {
	var in struct {
		Phone    string `json:"phone"`
		Code     string `json:"code"`
		Password string `json:"password"`
	}
	if err := bindLenient(c, &in); err != nil {
		return err
	}
	if in.Code == "" && in.Password != "" {
		return refusal("不支持密码登录，请使用验证码登录")
	}

	c.Set(loginPhoneKey, in.Phone)
	token, proof, err := h.Auth.LoginPage(c.Request.Context(), auth.Credentials{
		Phone: in.Phone,
		Code:  in.Code,
		From:  h.asker(c),
	})
	if err != nil {
		return err
	}

	h.setCookie(c, knownCookie, proof, knownCookieAge)
	h.errors.security.record(c, eventLogin)
	return writeSuccess(c, token)
}

func (h *hmdpHandler) logout(c *gin.Context) error {
	if err := h.Auth.Logout(c.Request.Context(), caller(c)); err != nil {
		return err
	}
	return noData(c)
}

type hmdpUser struct {
	ID       domain.ID `json:"id"`
	NickName string    `json:"nickName"`
	Icon     string    `json:"icon"`
}

func (h *hmdpHandler) me(c *gin.Context) error {
	u, err := h.Auth.Me(c.Request.Context(), caller(c))
	if err != nil {
		return err
	}
	return writeSuccess(c, hmdpUser{
		ID:       domain.ID(u.ID),
		NickName: u.NickName,
		Icon:     u.Icon,
	})
}

// refusal is a failure that only these routes have. The page displays its text.
type refusal string

func (e refusal) Error() string { return string(e) }

// hmdpMessages are the texts that the page displays, by code of the REST API.
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

// wrap adapts a handler or a middleware: it writes the answer to an error and ends the chain.
func (h *hmdpHandler) wrap(f func(*gin.Context) error) gin.HandlerFunc {
	return func(c *gin.Context) {
		if err := f(c); err != nil {
			h.fail(c, err)
		}
	}
}

// fail writes the answer to an error and ends the chain.
func (h *hmdpHandler) fail(c *gin.Context, err error) {
	c.Abort()

	if own, ok := errors.AsType[refusal](err); ok {
		writeFailure(c, http.StatusOK, string(own))
		return
	}

	p, retryAfter, ok := h.errors.classify(c, err)
	invalid, isInvalid := errors.AsType[*domain.InvalidError](err)
	switch {
	case !ok:
	case isInvalid:
		writeFailure(c, http.StatusOK, invalidMessage(invalid))
	case errors.Is(err, domain.ErrWrongCode):
		writeFailure(c, http.StatusOK, wrongCode)
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

func hmdpMessage(p *problem) string { return cmp.Or(hmdpMessages[p.Code], p.Title) }

func writeFailure(c *gin.Context, status int, message string) {
	c.JSON(status, envelope{ErrorMsg: message})
}

// hmdpFields maps field names of the API to the different names in the bodies of these routes.
var hmdpFields = map[string]string{
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

		names[i] = cmp.Or(hmdpFields[f.Field], f.Field)
	}

	return "参数错误：" + strings.Join(names, "、")
}

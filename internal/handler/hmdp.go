package handler

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/handler/hmdp"
)

func newHmdp(a *api) *hmdp.API {
	lists := newSnapshots()

	return hmdp.New(hmdp.Config{
		Auth:     a.Auth,
		Vouchers: a.Vouchers,
		Orders:   a.Orders,
		Shops:    a.Store,
		Zone:     a.Zone,

		Classify: func(c *gin.Context, err error) (hmdp.Failure, bool) {
			p, retryAfter, ok := a.errors.classify(c, err)
			return hmdp.Failure{Code: p.Code, Title: p.Title, Status: p.Status, RetryAfter: retryAfter}, ok
		},
		Bind:     bindLenient,
		ByID:     byID,
		Caller:   caller,
		SendCode: a.send,
		Login:    a.loginPage,

		Visit:       a.limits.visit,
		WriteCached: a.writeCached,
		WriteVouchers: func(c *gin.Context, f domain.VoucherFilter, answer func([]*domain.Voucher) any) error {
			return a.writeVoucherList(c, lists, f, func(vouchers []*domain.Voucher, _ time.Time) (*snapshot, error) {
				return encodeSnapshot(answer(vouchers))
			})
		},
	})
}

// hmdp registers the routes of hm-dianping with and without the prefix /api, which only some proxies in front of the pages
// strip.
func (r *routes) hmdp(hm *hmdp.API, purchases gin.HandlersChain) {
	user := r.limits.tokens(1, r.requirePage)
	m := hmdp.Middleware{
		User:     hm.Wrap(user),
		Operator: r.staff.permit(domain.MayOperate, user, hm.Fail),
		Reads:    limitConcurrency(maxReads, hm.Fail),
		Purchase: slices.Concat(purchases, gin.HandlersChain{hm.Wrap(r.requirePage), hm.Wrap(perUser(r.limits.orders))}),
	}

	for _, prefix := range []string{"", "/api"} {
		hm.Routes(r.engine.Group(prefix, withTimeout(hmdp.Timeout), hm.Wrap(limitBody)), m)
	}
}

// requirePage is require for the pages. The Authorization header holds the token from login, as the pages send it, or an
// access token of the REST API, as seckill seed writes them for the course's load test.
func (a *api) requirePage(c *gin.Context) error {
	token := cmp.Or(bearer(c), c.GetHeader("Authorization"))
	isJWT := strings.Count(token, ".") == 2

	var id auth.Identity
	var err error
	if isJWT || token == "" {
		id, err = a.Auth.Authenticate(token)
	} else {
		id, err = a.Auth.AuthenticatePage(c.Request.Context(), token)
	}
	if err != nil {
		return err
	}

	c.Set(identityKey, id)
	return nil
}

func (a *api) loginPage(c *gin.Context, phone, code string) (string, error) {
	c.Set(loginPhoneKey, phone)
	token, proof, err := a.Auth.LoginPage(c.Request.Context(), auth.Credentials{
		Phone: phone,
		Code:  code,
		From:  askerOf(c),
	})
	if err != nil {
		return "", err
	}

	setCookie(c, knownCookie, proof, knownCookieAge)
	a.errors.security.record(c, eventLogin)
	return token, nil
}

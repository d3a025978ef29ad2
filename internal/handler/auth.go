package handler

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/auth"
	"seckill/internal/domain"
)

// identityKey is the context key under which require stores the caller's identity.
const identityKey = "identity"

func (a *api) require(c *gin.Context) error {
	id, err := a.Auth.Authenticate(bearer(c))
	if err != nil {
		return err
	}
	c.Set(identityKey, id)
	return nil
}

func bearer(c *gin.Context) string {
	scheme, token, _ := strings.Cut(c.GetHeader("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	// Any number of spaces (RFC 6750, 2.1).
	return strings.TrimLeft(token, " ")
}

// caller returns the identity that require stored. It panics on a route without require.
func caller(c *gin.Context) auth.Identity { return c.MustGet(identityKey).(auth.Identity) }

func buyerOf(c *gin.Context) domain.Actor {
	return domain.Actor{Kind: domain.ActorBuyer, ID: caller(c).UserID}
}

func adminOf(c *gin.Context) domain.Actor {
	return domain.Actor{Kind: domain.ActorAdmin, ID: caller(c).UserID}
}

func (a *api) sendCode(c *gin.Context) error {
	var in struct {
		Phone string `json:"phone"`
	}
	if err := bind(c, &in); err != nil {
		return err
	}

	sent, err := a.send(c, in.Phone)
	if err != nil {
		return err
	}

	if wantsCookie(c) {
		setCookie(c, loginCookie, sent.LoginID, sent.ExpiresIn)
	}

	return writeJSON(c, http.StatusOK, codeOut{sent.LoginID, int(sent.ExpiresIn.Seconds()), int(sent.ResendAfter.Seconds())})
}

func (a *api) send(c *gin.Context, phone string) (auth.SentCode, error) {
	c.Set(loginPhoneKey, phone)
	sent, err := a.Auth.SendCode(c.Request.Context(), phone, askerOf(c))
	if err != nil {
		return sent, err
	}

	a.errors.security.record(c, eventCodeSent)
	if a.Demo {
		c.Header("X-Demo-Code", sent.Code)
	}
	return sent, nil
}

type codeOut struct {
	LoginID     string `json:"login_id"`
	ExpiresIn   int    `json:"expires_in"`   // seconds
	ResendAfter int    `json:"resend_after"` // seconds
}

type userOut struct {
	domain.User

	Permissions []domain.Permission `json:"permissions,omitempty"`
	// Of a redeemer with shops.
	ShopIDs []domain.ID `json:"shop_ids,omitempty"`
}

func newUserOut(u domain.User) userOut {
	out := userOut{User: u, Permissions: u.Role.Permissions()}
	if u.Role == domain.RoleRedeemer {
		for _, id := range u.ShopIDs {
			out.ShopIDs = append(out.ShopIDs, domain.ID(id))
		}
	}

	return out
}

// loginOut is the body of a login or refresh answer (RFC 6749, 5.1, plus the user).
type loginOut struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int    `json:"expires_in"` // seconds
	// Absent in cookie mode.
	RefreshToken string  `json:"refresh_token,omitempty"`
	User         userOut `json:"user"`
}

func (a *api) writeLogin(c *gin.Context, l auth.Login) error {
	out := loginOut{
		AccessToken:  l.AccessToken,
		TokenType:    "Bearer",
		ExpiresIn:    int(l.ExpiresIn.Seconds()),
		RefreshToken: l.RefreshToken,
		User:         newUserOut(l.User),
	}

	if l.Proof != "" {
		setCookie(c, knownCookie, l.Proof, knownCookieAge)
	}

	if wantsCookie(c) {
		setCookie(c, refreshCookie, l.RefreshToken, refreshCookieAge)
		out.RefreshToken = ""
	}

	return writeJSON(c, http.StatusOK, out)
}

func (a *api) login(c *gin.Context) error {
	var in struct {
		Phone   string `json:"phone"`
		Code    string `json:"code"`
		LoginID string `json:"login_id"`
		TOTP    string `json:"totp"`
	}
	if err := bind(c, &in); err != nil {
		return err
	}
	if in.Code == "" {
		return domain.Invalid("code", "is required")
	}

	c.Set(loginPhoneKey, in.Phone)
	device := ""
	if wantsCookie(c) {
		device = deviceID(c)
	}

	l, err := a.Auth.Login(c.Request.Context(), auth.Credentials{
		Phone:   in.Phone,
		Code:    in.Code,
		TOTP:    in.TOTP,
		LoginID: cmp.Or(in.LoginID, cookie(c, loginCookie)),
		Device:  device,
		From:    askerOf(c),
	})

	a.staff.login(c, l.User, err)
	if err != nil {
		return err
	}

	a.errors.security.record(c, eventLogin)
	return a.writeLogin(c, l)
}

func (a *api) refresh(c *gin.Context) error {
	if wantsCookie(c) {
		return a.refreshCookie(c)
	}

	var in struct {
		RefreshToken string `json:"refresh_token"`
	}
	if err := bind(c, &in); err != nil {
		return err
	}
	if in.RefreshToken == "" {
		return domain.Invalid("refresh_token", "is required")
	}

	l, err := a.exchange(c, in.RefreshToken, "", 0)
	if err != nil {
		return err
	}

	return a.writeLogin(c, l)
}

// exchange calls Auth.Refresh within the rate limit of the token's session. A token without a readable session counts
// against the client's address.
func (a *api) exchange(c *gin.Context, token, device string, grace time.Duration) (auth.Login, error) {
	key, err := a.Auth.RefreshedSession(token)
	if err != nil {
		key = byAddress(c)
	}
	if err := take(c, a.limits.refreshes, key, 1); err != nil {
		return auth.Login{}, err
	}
	return a.Auth.Refresh(c.Request.Context(), token, device, cookie(c, knownCookie), grace)
}

func (a *api) logout(c *gin.Context) error { return a.endSessions(c, a.Auth.Logout) }

func (a *api) logoutAll(c *gin.Context) error { return a.endSessions(c, a.Auth.LogoutAll) }

func (a *api) endSessions(c *gin.Context, end func(context.Context, auth.Identity) error) error {
	return a.writeLoggedOut(c, end(c.Request.Context(), caller(c)))
}

func (a *api) writeLoggedOut(c *gin.Context, err error) error {
	if err == nil && wantsCookie(c) {
		setCookie(c, refreshCookie, "", deleteCookie)
	}
	return writeNoContent(c, err)
}

func (a *api) me(c *gin.Context) error {
	u, err := a.Auth.Me(c.Request.Context(), caller(c))
	return writeOK(c, newUserOut(u), err)
}

// erase removes the person from the caller's account. Unpaid orders are cancelled first; paid ones stay valid by their
// redeem codes.
func (a *api) erase(c *gin.Context) error {
	if err := a.Auth.Erase(c.Request.Context(), caller(c), a.Orders.CancelUnpaid); err != nil {
		return err
	}

	a.errors.security.record(c, eventErased)
	return a.writeLoggedOut(c, nil)
}

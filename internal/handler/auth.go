package handler

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/auth"
	"seckill/internal/domain"
)

type authHandler struct {
	auth    *auth.Service
	demo    bool
	proxies []netip.Prefix // trusted to set X-Forwarded-Proto
	// limitRefresh counts a refresh against the limit of the session.
	limitRefresh func(c *gin.Context, session string) error
}

// identityKey is the context key under which require stores the caller's identity.
const identityKey = "identity"

// require returns a middleware that rejects requests without a valid access token or without the role. Roles other than
// buyer must also be in effect in the database.
func (h *authHandler) require(role domain.Role) func(*gin.Context) error {
	return func(c *gin.Context) error {
		id, err := h.auth.Authenticate(bearer(c))
		if err != nil {
			return err
		}
		if role != domain.RoleBuyer {
			if err := confirmRole(c.Request.Context(), h.auth, &id, role); err != nil {
				return err
			}
		}
		c.Set(identityKey, id)
		return nil
	}
}

// bearer returns the access token of the request, or "" without one.
func bearer(c *gin.Context) string {
	scheme, token, _ := strings.Cut(c.GetHeader("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

// confirmRole returns an error unless the user has the role, both by the token and at present. It sets the present role in
// id.
func confirmRole(ctx context.Context, users *auth.Service, id *auth.Identity, role domain.Role) (err error) {
	if id.Role != role {
		return domain.ErrForbidden
	}
	if id.Role, err = users.CurrentRole(ctx, *id); err != nil {
		return err
	}
	if id.Role != role {
		return domain.ErrForbidden
	}
	return nil
}

// caller returns the identity that require stored. It panics on a route without require.
func caller(c *gin.Context) auth.Identity { return c.MustGet(identityKey).(auth.Identity) }

func (h *authHandler) sendCode(c *gin.Context) error {
	var in struct {
		Phone string `json:"phone"`
	}
	if err := bind(c, &in); err != nil {
		return err
	}
	code, err := h.auth.SendCode(c.Request.Context(), in.Phone)
	if err != nil {
		return err
	}
	if h.demo {
		c.Header("X-Demo-Code", code)
	}
	c.Status(http.StatusNoContent)
	return nil
}

// userOut is the JSON form of the caller's own user.
type userOut struct {
	ID       ID          `json:"id"`
	Phone    string      `json:"phone"`
	NickName string      `json:"nick_name"`
	Icon     string      `json:"icon"`
	Role     domain.Role `json:"role"`
}

func newUserOut(u domain.User) userOut {
	return userOut{ID: ID(u.ID), Phone: u.Phone, NickName: u.NickName, Icon: u.Icon, Role: u.Role}
}

// loginOut is the body of a login or refresh answer (RFC 6749, 5.1, plus the user).
type loginOut struct {
	AccessToken  string  `json:"access_token"`
	TokenType    string  `json:"token_type"`
	ExpiresIn    int     `json:"expires_in"`              // seconds
	RefreshToken string  `json:"refresh_token,omitempty"` // absent in cookie mode
	User         userOut `json:"user"`
}

func (h *authHandler) writeLogin(c *gin.Context, l auth.Login) error {
	out := loginOut{
		AccessToken: l.AccessToken, TokenType: "Bearer", ExpiresIn: int(l.ExpiresIn.Seconds()),
		RefreshToken: l.RefreshToken, User: newUserOut(l.User),
	}
	if wantsCookie(c) {
		h.deviceID(c)
		h.setRefreshCookie(c, l.RefreshToken, refreshCookieAge)
		out.RefreshToken = ""
	}
	return writeJSON(c, http.StatusOK, out)
}

func (h *authHandler) login(c *gin.Context) error {
	var in struct {
		Phone string `json:"phone"`
		Code  string `json:"code"`
	}
	if err := bind(c, &in); err != nil {
		return err
	}
	if in.Code == "" {
		return domain.Invalid("code", "is required")
	}
	device := ""
	if wantsCookie(c) {
		device = h.deviceID(c)
	}
	l, err := h.auth.Login(c.Request.Context(), in.Phone, in.Code, device)
	if err != nil {
		return err
	}
	return h.writeLogin(c, l)
}

func (h *authHandler) refresh(c *gin.Context) error {
	if wantsCookie(c) {
		return h.refreshCookie(c)
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
	l, err := h.exchange(c, in.RefreshToken, "", 0)
	if err != nil {
		return err
	}
	return h.writeLogin(c, l)
}

// exchange calls Auth.Refresh within the rate limit of the token's session. A token without a readable session counts
// against the client's address.
func (h *authHandler) exchange(c *gin.Context, token, device string, grace time.Duration) (auth.Login, error) {
	key, err := h.auth.RefreshedSession(token)
	if err != nil {
		key = byAddress(c)
	}
	if err := h.limitRefresh(c, key); err != nil {
		return auth.Login{}, err
	}
	return h.auth.Refresh(c.Request.Context(), token, device, grace)
}

func (h *authHandler) logout(c *gin.Context) error { return h.endSessions(c, h.auth.Logout) }

func (h *authHandler) logoutAll(c *gin.Context) error { return h.endSessions(c, h.auth.LogoutAll) }

func (h *authHandler) endSessions(c *gin.Context, end func(context.Context, auth.Identity) error) error {
	if err := end(c.Request.Context(), caller(c)); err != nil {
		return err
	}
	if wantsCookie(c) {
		h.setRefreshCookie(c, "", -1)
	}
	c.Status(http.StatusNoContent)
	return nil
}

func (h *authHandler) me(c *gin.Context) error {
	u, err := h.auth.Me(c.Request.Context(), caller(c))
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, newUserOut(u))
}

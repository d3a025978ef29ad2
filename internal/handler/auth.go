package handler

import (
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/auth"
	"seckill/internal/service"
)

type authHandler struct {
	auth    *auth.Service
	demo    bool
	proxies []netip.Prefix // whose X-Forwarded-Proto is believed
	// refreshes limits the exchanges of a session.
	refreshes func(session string) error
}

// identityKey is where require leaves the caller's identity.
const identityKey = "identity"

// require lets only callers with a valid access token and the role pass.
func (h *authHandler) require(role service.Role) func(*gin.Context) error {
	return func(c *gin.Context) error {
		scheme, token, _ := strings.Cut(c.GetHeader("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || token == "" {
			return service.ErrUnauthenticated
		}
		id, err := h.auth.Authenticate(token)
		if err != nil {
			return err
		}
		if role == service.RoleAdmin && id.Role != service.RoleAdmin {
			return service.ErrForbidden
		}
		c.Set(identityKey, id)
		return nil
	}
}

// caller returns the identity that require left. The routes see to it that it ran.
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

// userOut is a user as its owner sees it.
type userOut struct {
	ID       ID           `json:"id"`
	Phone    string       `json:"phone"`
	NickName string       `json:"nick_name"`
	Icon     string       `json:"icon"`
	Role     service.Role `json:"role"`
}

func newUserOut(u service.User) userOut {
	return userOut{ID: ID(u.ID), Phone: u.Phone, NickName: u.NickName, Icon: u.Icon, Role: u.Role}
}

// loginOut is the answer to login and refresh (RFC 6749, 5.1, plus the user).
type loginOut struct {
	AccessToken  string  `json:"access_token"`
	TokenType    string  `json:"token_type"`
	ExpiresIn    int     `json:"expires_in"`              // seconds
	RefreshToken string  `json:"refresh_token,omitempty"` // not where a cookie has it
	User         userOut `json:"user"`
}

func (h *authHandler) writeLogin(c *gin.Context, l auth.Login) error {
	out := loginOut{
		AccessToken: l.AccessToken, TokenType: "Bearer", ExpiresIn: int(l.ExpiresIn.Seconds()),
		RefreshToken: l.RefreshToken, User: newUserOut(l.User),
	}
	if wantsCookie(c) {
		h.setCookie(c, l.RefreshToken)
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
		return service.Invalid("code", "is required")
	}
	l, err := h.auth.Login(c.Request.Context(), in.Phone, in.Code)
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
		return service.Invalid("refresh_token", "is required")
	}
	l, err := h.exchange(c, in.RefreshToken, 0)
	if err != nil {
		return err
	}
	return h.writeLogin(c, l)
}

// exchange is Auth.Refresh within the limit of the token's session. A token that names none counts for its address.
func (h *authHandler) exchange(c *gin.Context, token string, patience time.Duration) (auth.Login, error) {
	key, err := h.auth.RefreshedSession(token)
	if err != nil {
		key = byAddress(c)
	}
	if err := h.refreshes(key); err != nil {
		return auth.Login{}, err
	}
	return h.auth.Refresh(c.Request.Context(), token, patience)
}

func (h *authHandler) logout(c *gin.Context) error {
	if err := h.auth.Logout(c.Request.Context(), caller(c)); err != nil {
		return err
	}
	if wantsCookie(c) {
		h.setCookie(c, "")
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

package handler

import (
	"cmp"
	"context"
	"strings"

	"github.com/gin-gonic/gin"

	"seckill/internal/auth"
	"seckill/internal/domain"
)

// authenticate rejects requests without a valid session. The Authorization header holds the token from login, as the pages send
// it, or an access token of the API, as seckill seed writes them for the course's load test.
func (h *hmdpHandler) authenticate(c *gin.Context) error {
	id, err := h.identify(c.Request.Context(), cmp.Or(bearer(c), c.GetHeader("Authorization")))
	if err != nil {
		return err
	}
	c.Set(identityKey, id)
	return nil
}

func (h *hmdpHandler) identify(ctx context.Context, token string) (auth.Identity, error) {
	if token == "" {
		return auth.Identity{}, domain.ErrUnauthenticated
	}
	if isJWT := strings.Count(token, ".") == 2; isJWT {
		return h.Auth.Authenticate(token)
	}
	return h.Auth.AuthenticatePage(ctx, token)
}

func (h *hmdpHandler) sendCode(c *gin.Context) error {
	phone := c.Query("phone")
	if abroad, ok := strings.CutPrefix(phone, " "); ok {
		// The page does not escape the + in the URL, where it stands for a space.
		phone = "+" + abroad
	}

	if _, err := h.send(c, phone); err != nil {
		return err
	}
	return h.noData(c)
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
		return hmdpError("不支持密码登录，请使用验证码登录")
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
	return h.write(c, token)
}

func (h *hmdpHandler) logout(c *gin.Context) error {
	if err := h.Auth.Logout(c.Request.Context(), caller(c)); err != nil {
		return err
	}
	return h.noData(c)
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
	return h.write(c, hmdpUser{
		ID:       domain.ID(u.ID),
		NickName: u.NickName,
		Icon:     u.Icon,
	})
}

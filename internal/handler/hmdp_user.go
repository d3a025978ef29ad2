package handler

import (
	"strings"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

// authenticate rejects requests without a valid session. The Authorization header holds the bare token from login.
func (h *hmdpHandler) authenticate(c *gin.Context) error {
	token := c.GetHeader("Authorization")
	if token == "" {
		return domain.ErrUnauthenticated
	}
	id, err := h.auth.AuthenticateSliding(c.Request.Context(), token)
	if err != nil {
		return err
	}
	c.Set(identityKey, id)
	return nil
}

// admin rejects requests of other users than admins.
func (h *hmdpHandler) admin(c *gin.Context) error {
	if err := h.authenticate(c); err != nil {
		return err
	}
	id := caller(c)
	return confirmRole(c.Request.Context(), h.auth, &id, domain.RoleAdmin)
}

// visitor accepts every request. With a valid token it extends the idle timeout of the session; an invalid token is
// ignored.
func (h *hmdpHandler) visitor(c *gin.Context) error {
	_ = h.authenticate(c)
	return nil
}

func (h *hmdpHandler) sendCode(c *gin.Context) error {
	phone := c.Query("phone")
	if abroad, ok := strings.CutPrefix(phone, " "); ok {
		phone = "+" + abroad // the page does not escape the + in the URL, where it stands for a space
	}
	code, err := h.auth.SendCode(c.Request.Context(), phone)
	if err != nil {
		return err
	}
	if h.demo {
		c.Header("X-Demo-Code", code)
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
	token, err := h.auth.LoginSliding(c.Request.Context(), in.Phone, in.Code)
	if err != nil {
		return err
	}
	return h.write(c, token)
}

func (h *hmdpHandler) logout(c *gin.Context) error {
	if err := h.auth.Logout(c.Request.Context(), caller(c)); err != nil {
		return err
	}
	return h.noData(c)
}

// hmdpUser is the JSON form of a user.
type hmdpUser struct {
	ID       ID     `json:"id"`
	NickName string `json:"nickName"`
	Icon     string `json:"icon"`
}

func (h *hmdpHandler) me(c *gin.Context) error {
	u, err := h.auth.Me(c.Request.Context(), caller(c))
	if err != nil {
		return err
	}
	return h.write(c, hmdpUser{ID: ID(u.ID), NickName: u.NickName, Icon: u.Icon})
}

package handler

import (
	"strings"

	"github.com/gin-gonic/gin"

	"seckill/internal/service"
)

// authenticate lets only those pass who are logged in. The header holds the token that login gave and nothing else.
func (h *hmdpHandler) authenticate(c *gin.Context) error {
	token := c.GetHeader("Authorization")
	if token == "" {
		return service.ErrUnauthenticated
	}
	id, err := h.auth.AuthenticateSliding(c.Request.Context(), token)
	if err != nil {
		return err
	}
	c.Set(identityKey, id)
	return nil
}

// admin lets only admins pass.
func (h *hmdpHandler) admin(c *gin.Context) error {
	if err := h.authenticate(c); err != nil {
		return err
	}
	if caller(c).Role != service.RoleAdmin {
		return service.ErrForbidden
	}
	return nil
}

// visitor lets everybody pass. Somebody who is logged in and looks around is not idle: his session goes on.
func (h *hmdpHandler) visitor(c *gin.Context) error {
	_ = h.authenticate(c) // a token that is over is no reason to show nothing
	return nil
}

func (h *hmdpHandler) sendCode(c *gin.Context) error {
	phone := c.Query("phone")
	if abroad, ok := strings.CutPrefix(phone, " "); ok {
		phone = "+" + abroad // the page writes the number into the address as it is, where + is a space
	}
	code, err := h.auth.SendCode(c.Request.Context(), phone)
	if err != nil {
		return err
	}
	if h.demo {
		c.Header("X-Demo-Code", code)
	}
	return h.nothing(c)
}

func (h *hmdpHandler) login(c *gin.Context) error {
	var in struct {
		Phone    string `json:"phone"`
		Code     string `json:"code"`
		Password string `json:"password"`
	}
	if err := bindLoosely(c, &in); err != nil {
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
	return h.nothing(c)
}

// hmdpUser is a user as the pages read it.
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

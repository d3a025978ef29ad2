package handler

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

type unreadNoticeHandler struct{ *api }

type unreadNoticeOut struct {
	*domain.UnreadNotice

	Source  string `json:"source"`
	Ref     string `json:"provider_ref,omitempty"`
	OrderID ID     `json:"order_id,omitempty"`
	Body    string `json:"body"`
}

func newUnreadNoticeOut(n *domain.UnreadNotice) unreadNoticeOut {
	out := unreadNoticeOut{
		UnreadNotice: n,
		Source:       "notice",
		Ref:          n.Notice.Ref,
		OrderID:      ID(n.Notice.OrderID),
		Body:         strings.ToValidUTF8(string(n.Notice.Body), "\uFFFD"),
	}

	if n.Notice.Queried {
		out.Source = "query"
	}

	return out
}

func (h *unreadNoticeHandler) list(c *gin.Context) error {
	q := &query{c: c}
	page := q.page(h.cursors)
	f := domain.NoticeFilter{
		Open: word(q, "state", func(s string) (bool, bool) { return true, s == "open" }, "must be open"),
		Page: page.Page,
	}
	if q.err != nil {
		return q.err
	}

	notices, err := h.Store.UnreadNotices(c.Request.Context(), f)
	if err != nil {
		return err
	}

	return writeJSON(c, http.StatusOK, newList(page, notices, newUnreadNoticeOut, func(n *domain.UnreadNotice) int64 { return n.ID }))
}

func (h *unreadNoticeHandler) close(c *gin.Context, claim *domain.Claim, id int64) error {
	var in struct {
		Reason string `json:"reason"`
	}
	if err := bind(c, &in); err != nil {
		return err
	}

	if err := domain.CheckReason(in.Reason); err != nil {
		return err
	}

	err := h.Store.CloseNotice(c.Request.Context(), domain.NoticeClosing{
		ID:     id,
		Reason: in.Reason,
		By:     adminOf(c),
		At:     domain.Moment(h.Now()),
		Claim:  claim,
	})
	if err != nil {
		return err
	}

	return writeNoContent(c)
}

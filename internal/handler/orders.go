package handler

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

// orderOut is the JSON form of an order, with the offer as bought.
type orderOut struct {
	*domain.Order
	domain.Offer
}

func newOrderOut(o *domain.Order) orderOut { return orderOut{o, o.Bought()} }

func locationOf(kind string, id int64) string {
	return "/api/v1/" + kind + "/" + strconv.FormatInt(id, 10)
}

func (a *api) placeOrder(c *gin.Context) error {
	voucherID, err := pathID(c)
	if err != nil {
		return err
	}

	name, sum, _, err := requestKey(c)
	if err != nil {
		return err
	}

	var key *domain.RequestKey
	if name != "" {
		key = domain.NewRequestKey(name, sum)
	}

	o, replayed, err := a.Orders.PlaceOnce(c.Request.Context(), caller(c).UserID, voucherID, preferredWait(c), key, c.GetHeader(passHeader))
	if err != nil {
		return err
	}

	if replayed {
		c.Header(replayedHeader, "true")
	}

	c.Header("Location", locationOf("orders", o.ID))
	if o.Status == domain.OrderQueued {
		return writeQueued(c, o.ID)
	}

	return writeOrder(c, http.StatusCreated, &o)
}

// maxWait caps the wait that a client can request, in seconds. The service has a lower limit.
const maxWait = 60

// preferredWait returns the wait for the outcome that the client requests by Prefer: wait=N (RFC 7240, 4.3), or 0. As
// the RFC requires, invalid values are ignored; the first of several counts.
func preferredWait(c *gin.Context) time.Duration {
	for _, header := range c.Request.Header.Values("Prefer") {
		for preference := range strings.SplitSeq(header, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}

			n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
			if err != nil {
				return 0
			}

			return time.Duration(min(n, maxWait)) * time.Second
		}
	}

	return 0
}

func (a *api) showOrder(c *gin.Context, id int64) error {
	o, err := a.Orders.Get(c.Request.Context(), caller(c).UserID, id)
	return writeMoved(c, o, err)
}

func (a *api) redeemOrder(c *gin.Context, claim *domain.Claim, id int64) error {
	var in struct {
		Code string `json:"code"`
	}
	if err := bindOptional(c, &in); err != nil {
		return err
	}

	o, err := a.Orders.Redeem(c.Request.Context(), claim, caller(c).UserID, id, in.Code)
	return writeMoved(c, o, err)
}

func (a *api) redeemCode(c *gin.Context, claim *domain.Claim) error {
	var in struct {
		Code string `json:"code"`
	}
	if err := bind(c, &in); err != nil {
		return err
	}

	o, err := a.Orders.RedeemCode(c.Request.Context(), claim, caller(c).UserID, in.Code)
	return writeMoved(c, o, err)
}

func (a *api) undoRedeem(c *gin.Context, claim *domain.Claim, id int64) error {
	var in struct {
		Reason string `json:"reason"`
	}
	if err := bind(c, &in); err != nil {
		return err
	}

	o, err := a.Orders.UndoRedeem(c.Request.Context(), claim, caller(c).UserID, id, "", in.Reason)
	return writeMoved(c, o, err)
}

func (a *api) undoRedeemCode(c *gin.Context, claim *domain.Claim) error {
	var in struct {
		Code   string `json:"code"`
		Reason string `json:"reason"`
	}
	if err := bind(c, &in); err != nil {
		return err
	}
	if in.Code == "" {
		return domain.UnknownCode("is required")
	}

	o, err := a.Orders.UndoRedeem(c.Request.Context(), claim, caller(c).UserID, 0, in.Code, in.Reason)
	return writeMoved(c, o, err)
}

func moved(
	by func(*gin.Context) domain.Actor, change func(context.Context, *domain.Claim, domain.Actor, int64) (domain.Order, error),
) func(*gin.Context, *domain.Claim) error {
	return keyedByID(func(c *gin.Context, claim *domain.Claim, id int64) error {
		o, err := change(c.Request.Context(), claim, by(c), id)
		return writeMoved(c, o, err)
	})
}

func writeMoved(c *gin.Context, o domain.Order, err error) error {
	if err != nil {
		return err
	}
	return writeOrder(c, http.StatusOK, &o)
}

func (a *api) listOrders(c *gin.Context) error {
	q := &query{c: c}
	page := q.page(a.CursorKeys)
	status := q.orderStatus()
	if q.err != nil {
		return q.err
	}

	orders, err := a.Orders.List(c.Request.Context(), caller(c).UserID, status, page.Page)
	return writeOK(c, newList(page, orders, newOrderOut, orderID), err)
}

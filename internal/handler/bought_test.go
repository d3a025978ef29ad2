package handler_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// boughtView is what an order says that it is for.
type boughtView struct {
	Title    string
	SubTitle string `json:"sub_title"`
	Rules    string
	ShopID   string `json:"shop_id"`
	ShopName string `json:"shop_name"`
}

// describedOrder is an order with what it is for.
type describedOrder struct {
	ID string
	boughtView
}

// breakfast is a sale of a new shop, and what its orders say.
func (e *env) breakfast(stock int) (voucherView, boughtView) {
	e.t.Helper()
	shop := decode[struct{ ID string }](e.admin().post("/api/v1/admin/shops", map[string]any{"name": "桂花茶餐厅"}).want(http.StatusCreated))
	says := boughtView{Title: "早餐 for two", SubTitle: "every day", Rules: "Not on <Sundays>.\nNo change.", ShopID: shop.ID, ShopName: "桂花茶餐厅"}
	v := e.sale(stock, func(b map[string]any) {
		b["title"], b["sub_title"], b["rules"], b["shop_id"] = says.Title, says.SubTitle, says.Rules, says.ShopID
	})
	return v, says
}

// replace changes everything that a voucher says, its value and the name of its shop, and takes it down.
func (e *env) replace(v voucherView, says boughtView) {
	e.t.Helper()
	admin := e.admin()
	admin.patch("/api/v1/admin/shops/"+says.ShopID, map[string]any{"name": "Another name"}).want(http.StatusOK)
	admin.patch(v.adminPath(), map[string]any{
		"title": "Breakfast", "sub_title": "", "rules": "Mondays only", "shop_id": "77", "actual_value": 9000, "status": "off",
	}).want(http.StatusOK)
}

// TestOrderKeepsWhatWasBought: after the sale the voucher is changed and taken down, and its shop renamed. Every view of the
// order shows what was bought.
func TestOrderKeepsWhatWasBought(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *env) {
		e.store.RecordEvents()
		v, says := e.breakfast(9)
		buyer, admin := e.buyer(1), e.admin()
		placed := buyer.with("Idempotency-Key", "first").post(v.orders(), nil).want(http.StatusCreated)
		o := decode[orderView](placed)
		require.Equal(t, says, decode[boughtView](placed))
		payment := buyer.pay(o)
		e.notify(e.noticeOf(payment.Payment, payment.Order, "succeeded")).want(http.StatusOK)

		e.replace(v, says)
		e.guest().get(v.path()).problem(http.StatusNotFound, "not_found")

		paid := buyer.get(o.path()).want(http.StatusOK)
		require.Equal(t, says, decode[boughtView](paid))
		list := decode[listView[describedOrder]](buyer.get("/api/v1/orders").want(http.StatusOK))
		require.Equal(t, says, list.Items[0].boughtView)
		require.Equal(t, string(placed.body), string(buyer.with("Idempotency-Key", "first").post(v.orders(), nil).want(http.StatusCreated).body))
		export := decode[struct{ Orders []describedOrder }](buyer.get("/api/v1/me/export").want(http.StatusOK))
		require.Equal(t, says, export.Orders[0].boughtView)

		one := admin.get("/api/v1/admin/orders/" + o.ID).want(http.StatusOK)
		require.Equal(t, says, decode[boughtView](one))
		found := decode[listView[describedOrder]](admin.get("/api/v1/admin/orders?voucher_id=" + v.ID).want(http.StatusOK))
		require.Equal(t, says, found.Items[0].boughtView)
		row := admin.get("/api/v1/admin/orders.csv").file()[0]
		require.Equal(t, says, boughtView{row["title"], row["sub_title"], row["rules"], row["shop_id"], row["shop_name"]})
		events := decode[listView[struct{ Payload struct{ Data boughtView } }]](admin.get("/api/v1/admin/events").want(http.StatusOK))
		require.Len(t, events.Items, 2)
		for _, event := range events.Items {
			require.Equal(t, says, event.Payload.Data)
		}

		code := map[string]string{"code": decode[orderView](paid).RedeemCode}
		preview := decode[struct {
			Order   boughtView
			Voucher struct {
				boughtView
				ActualValue int64 `json:"actual_value"`
				Status      string
			}
		}](admin.post("/api/v1/admin/redeem/preview", code).want(http.StatusOK))
		require.Equal(t, says, preview.Order)
		says.ShopName = "" // a voucher has only the id
		require.Equal(t, says, preview.Voucher.boughtView)
		require.Equal(t, int64(10000), preview.Voucher.ActualValue)
		require.Equal(t, "off", preview.Voucher.Status)
	})
}

// TestMovesAnswerWhatWasBought: the answers to actions on an order say what was bought.
func TestMovesAnswerWhatWasBought(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v, says := e.breakfast(9)
	paid, unpaid := e.buyer(1).paid(v).Order, e.buyer(2).place(v)
	e.replace(v, says)
	admin := e.admin()
	begun := decode[struct{ Order boughtView }](e.buyer(2).post(unpaid.path()+"/pay", nil).want(http.StatusOK))
	assert.Equal(t, says, begun.Order)
	assert.Equal(t, says, decode[boughtView](e.buyer(2).post(unpaid.path()+"/cancel", nil).want(http.StatusOK)))
	assert.Equal(t, says, decode[boughtView](admin.post("/api/v1/admin/orders/"+paid.ID+"/redeem", nil).want(http.StatusOK)))
	undo := map[string]string{"reason": "the wrong guest"}
	assert.Equal(t, says, decode[boughtView](admin.post("/api/v1/admin/orders/"+paid.ID+"/undo-redeem", undo).want(http.StatusOK)))
	assert.Equal(t, says, decode[boughtView](e.buyer(1).post(paid.path()+"/refund", nil).want(http.StatusOK)))
}

// TestQueuedOrderKeepsWhatWasBought: in lane queue the texts are those of the admission, however long the order waits, even
// as a dead letter.
func TestQueuedOrderKeepsWhatWasBought(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	v, says := e.breakfast(9)
	buyer := e.buyer(1)
	id := buyer.queue(v)
	e.replace(v, says)
	shown := func() boughtView { return decode[boughtView](buyer.get(orderPath(id)).want(http.StatusOK)) }
	assert.Equal(t, says, shown(), "while it waits")
	list := decode[listView[describedOrder]](buyer.get("/api/v1/orders").want(http.StatusOK))
	assert.Equal(t, says, list.Items[0].boughtView)

	e.deadLetter("a test")
	letters := decode[listView[struct{ ID string }]](e.admin().get("/api/v1/admin/dead-letters").want(http.StatusOK))
	e.admin().post("/api/v1/admin/dead-letters/"+letters.Items[0].ID+"/replay", nil).want(http.StatusAccepted)
	e.work()
	assert.Equal(t, says, shown(), "after its commit")
}

// TestOfferIsStoredBeforeItsOrders: no purchase is committed without its texts, and lane queue admits without the database.
func TestOfferIsStoredBeforeItsOrders(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v, says := e.breakfast(9)
	e.exec("ALTER TABLE offers RENAME TO gone")
	e.buyer(1).post(v.orders(), nil).want(http.StatusInternalServerError)
	require.NotContains(t, e.dumpOf("voucher_orders"), "voucher_orders")
	e.exec("ALTER TABLE gone RENAME TO offers")
	o := e.buyer(1).place(v)
	e.replace(v, says)
	require.Equal(t, says, decode[boughtView](e.buyer(1).get(o.path()).want(http.StatusOK)))
	require.Equal(t, 1, strings.Count(e.dumpOf("offers"), "offers ["))

	q := newQueueEnv(t)
	v, says = q.breakfast(9)
	q.exec("ALTER TABLE offers RENAME TO gone")
	id := q.buyer(1).queue(v)
	q.exec("ALTER TABLE gone RENAME TO offers")
	next := q.buyer(2).queue(v)
	q.work()
	q.replace(v, says)
	for n, order := range []string{id, next} {
		require.Equal(t, says, decode[boughtView](q.buyer(n+1).get(orderPath(order)).want(http.StatusOK)))
	}
}

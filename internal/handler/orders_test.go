package handler_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/service"
	"seckill/test/env"
)

func (c client) place(v voucherView) orderView {
	c.t.Helper()
	return decode[orderView](c.post(v.orders(), nil).want(http.StatusCreated))
}

// TestOrder: the answers to a purchase, a repeated click and a cancellation.
func TestOrder(t *testing.T) {
	e := start(t)
	v, buyer := e.sale(2), e.buyer(1)
	a := buyer.post(v.orders(), nil).want(http.StatusCreated)
	o := decode[orderView](a)
	assert.Equal(t, o.path(), a.header.Get("Location"))
	assert.Equal(t, orderView{
		ID: o.ID, VoucherID: v.ID, UserID: buyer.login.User.ID, Status: "pending_payment", Amount: 8000,
		CreatedAt: "2026-11-11T12:00:00Z", ExpiresAt: "2026-11-11T12:15:00Z",
	}, o)
	assert.Greater(t, o.ID, "3000000000000000000", "an id that a JavaScript number cannot represent")
	assert.Equal(t, decode[map[string]any](a), decode[map[string]any](buyer.get(o.path()).want(http.StatusOK)))
	for range 2 { // a repeated click places no second order
		assert.Equal(t, o.ID, buyer.post(v.orders(), nil).problem(http.StatusConflict, "duplicate_order").OrderID)
	}
	assert.EqualValues(t, 1, e.stock(v.ID))

	e.clock.advance(time.Second)
	a = buyer.post(o.path()+"/cancel", nil).want(http.StatusOK)
	o.Status, o.CancelledAt = "cancelled", "2026-11-11T12:00:01Z"
	assert.Equal(t, o, decode[orderView](a))
	assert.Equal(t, decode[map[string]any](a), decode[map[string]any](buyer.get(o.path()).want(http.StatusOK)))
	assert.NotEqual(t, o.ID, buyer.place(v).ID)
}

// TestOrderWithoutLock: a purchase whose user has another one in progress, or whose lock cannot be read, changes nothing.
func TestOrderWithoutLock(t *testing.T) {
	e := start(t)
	v, buyer := e.sale(5), e.buyer(1)
	before := e.dump()
	user := mustID(t, buyer.login.User.ID)
	e.locks.held.Store(user, true)
	inProgress := buyer.post(v.orders(), nil)
	inProgress.problem(http.StatusConflict, "order_in_progress")
	e.locks.fail(errors.New("dial tcp 10.1.2.3:6379: connection refused"))
	outage := e.buyer(2).post(v.orders(), nil)
	outage.problem(http.StatusServiceUnavailable, "unavailable")
	assert.Equal(t, []int{1, 1}, []int{inProgress.retryAfter(), outage.retryAfter()})
	assert.NotContains(t, string(outage.body), "10.1.2.3")
	assert.Equal(t, rows(before, "voucher_orders"), rows(e.dump(), "voucher_orders"))

	e.locks.err.Store(nil)
	e.buyer(2).place(v) // other users are not affected
	e.locks.held.Delete(user)
	buyer.place(v)
}

// laneFunc is a lane that is one function.
type laneFunc func(context.Context, domain.Purchase) domain.Placed

func (f laneFunc) Place(ctx context.Context, p domain.Purchase) domain.Placed {
	return f(ctx, p)
}

// TestSlowLane: a purchase that the lane blocks ends with the timeout of its request, and continues. Beyond the number of such purchases
// further ones are refused at once. Reads are still possible.
func TestSlowLane(t *testing.T) {
	blocked, leave := context.WithCancel(context.Background())
	e := start(t, func(s *setup) {
		s.maxInFlight = 1
		s.lane = func(inner service.Lane) service.Lane {
			return laneFunc(func(ctx context.Context, p domain.Purchase) domain.Placed {
				<-blocked.Done()
				return inner.Place(ctx, p)
			})
		}
	})
	t.Cleanup(leave) // releases the server if the test fails early
	v, two, p := e.sale(5), e.buyer(2), e.pageOf(phone)
	order := func() reply { return p.post("/voucher-order/seckill/"+v.ID, nil) }
	order().broken(http.StatusServiceUnavailable)
	defer time.AfterFunc(time.Minute, leave).Stop() // a purchase too many would wait for it
	a := two.post(v.orders(), nil)
	a.problem(http.StatusServiceUnavailable, "overloaded")
	assert.Equal(t, 1, a.retryAfter())
	two.get(v.path()).want(http.StatusOK)

	leave()
	require.Eventually(t, func() bool {
		locked := false
		e.locks.held.Range(func(any, any) bool { locked = true; return false })
		return e.stock(v.ID) == 4 && !locked
	}, time.Minute, 10*time.Millisecond)
	order().fails("用户已经购买过一次了")
	two.place(v)
	assert.EqualValues(t, 3, e.stock(v.ID))
}

func TestOrdersBelongToTheirOwner(t *testing.T) {
	e := start(t)
	o := e.buyer(1).place(e.sale(5))
	paid := e.buyer(1).paid(e.sale(5)).Order
	for _, c := range []client{e.buyer(2), e.admin()} {
		before := e.dump()
		c.get(o.path()).problem(http.StatusNotFound, "not_found")
		c.get(o.path()+"/payments").problem(http.StatusNotFound, "not_found")
		c.post(o.path()+"/cancel", nil).problem(http.StatusNotFound, "not_found")
		c.post(o.path()+"/pay", nil).problem(http.StatusNotFound, "not_found")
		c.post(paid.path()+"/refund", nil).problem(http.StatusNotFound, "not_found")
		assert.Empty(t, decode[listView[orderView]](c.get("/api/v1/orders").want(http.StatusOK)).Items)
		assert.Equal(t, before, e.dump())
	}
}

func with(field string, value any) func(map[string]any) {
	return func(b map[string]any) { b[field] = value }
}

// letExpire closes an order as the closer does at its payment deadline, and waits until purchases see that: they would use
// an old snapshot of the sale if the database were slow.
func (e *environment) letExpire(o orderView) {
	e.t.Helper()
	id := mustID(e.t, o.ID)
	stored := env.Must(e.store.Order(e.t.Context(), 0, id))(e.t)
	closed := env.Must(e.store.MoveOrder(e.t.Context(), domain.OrderMove{
		Move: domain.MoveExpire, OrderID: id, By: domain.Actor{Kind: domain.ActorSystem}, At: stored.ExpiresAt,
	}))(e.t)
	e.returns.Release(e.t.Context(), closed)
	env.Must(e.returns.Sales.Fresh(e.t.Context(), closed.VoucherID))(e.t)
}

// After an order has expired, its user gets neither a pass nor another order of the sale, and in lane queue no unit. A repeated request
// still returns its order. Other users are not affected.
func TestUnpaidLimit(t *testing.T) {
	e := startQueue(t)
	v, user := e.passSale(9), e.buyer(1)
	buyer := user.withPass(v)
	first := buyer.key("k").post(v.orders(), nil).want(http.StatusAccepted)
	e.work()
	e.letExpire(orderView{ID: decode[queuedView](first).OrderID})

	const detail = "the user did not pay earlier orders of this sale in time"
	for _, a := range []answer{buyer.post(v.orders(), nil), user.post(v.path()+"/entry", nil), buyer.key("l").post(v.orders(), nil)} {
		assert.Equal(t, detail, a.problem(http.StatusConflict, "unpaid_limit").Detail)
	}
	assert.Empty(t, e.waiting())
	buyer.key("k").post(v.orders(), nil).same(first)
	e.buyer(2).withPass(v).queue(v)
	assert.EqualValues(t, 9, e.stock(v.ID))
}

// The sale's own time to pay replaces the server's, in a lane that answers after the commit.
func TestPayTimeoutOfSale(t *testing.T) {
	e := start(t)
	type view struct {
		PayTimeout  int `json:"pay_timeout"`
		UnpaidLimit int `json:"unpaid_limit"`
	}
	v, admin := e.sale(9, with("pay_timeout", 90), with("unpaid_limit", 3)), e.admin()
	buyers := 0
	check := func(want view, expires, detail string) {
		assert.Equal(t, want, decode[view](e.guest().get(v.path()).want(http.StatusOK)))
		buyers++
		assert.Equal(t, expires, e.buyer(buyers).place(v).ExpiresAt)
		assert.Equal(t, detail, admin.audit("voucher_id=" + v.ID)[0].Detail)
	}
	check(view{90, 3}, "2026-11-11T12:01:30Z", "")
	admin.patch(v.adminPath(), map[string]any{"pay_timeout": 3600, "unpaid_limit": 5}).want(http.StatusOK)
	check(view{3600, 5}, "2026-11-11T13:00:00Z", "pay_timeout: 1m30s -> 1h0m0s; unpaid_limit: 3 -> 5")
	admin.refusedRequest("PATCH", v.adminPath(), `{"pay_timeout":"90","unpaid_limit":3}`, "pay_timeout")
	admin.patch(v.adminPath(), map[string]any{"pay_timeout": nil, "unpaid_limit": nil}).want(http.StatusOK)
	check(view{}, "2026-11-11T12:15:00Z", "pay_timeout: 1h0m0s -> default; unpaid_limit: 5 -> default")
}

// A queued order keeps the time to pay that its sale had when it was admitted.
func TestPayTimeoutOfQueuedOrder(t *testing.T) {
	e := startQueue(t)
	v, buyer := e.sale(9, with("pay_timeout", 90)), e.buyer(1)
	id := buyer.queue(v)
	e.admin().patch(v.adminPath(), map[string]any{"pay_timeout": 60}).want(http.StatusOK)
	shown := func() string { return decode[orderView](buyer.get(orderPath(id)).want(http.StatusOK)).ExpiresAt }
	assert.Equal(t, "2026-11-11T12:01:30Z", shown())
	e.work()
	assert.Equal(t, "2026-11-11T12:01:30Z", shown())
	later := e.buyer(2).queue(v)
	e.work()
	assert.Equal(t, "2026-11-11T12:01:00Z", decode[orderView](e.buyer(2).get(orderPath(later)).want(http.StatusOK)).ExpiresAt)
}

type boughtView struct {
	Title    string
	SubTitle string `json:"sub_title"`
	Rules    string
	ShopID   string `json:"shop_id"`
	ShopName string `json:"shop_name"`

	ValidFrom  string `json:"valid_from"`
	ValidUntil string `json:"valid_until"`
}

type describedOrder struct {
	ID string
	boughtView
}

// breakfast is a sale of a new shop, and what its orders say.
func (e *environment) breakfast(stock int) (voucherView, boughtView) {
	e.t.Helper()
	shop := decode[struct{ ID string }](e.admin().post("/api/v1/admin/shops", map[string]any{"name": "桂花茶餐厅"}).want(http.StatusCreated))
	says := boughtView{Title: "早餐 for two", SubTitle: "every day", Rules: "Not on <Sundays>.\nNo change.", ShopID: shop.ID, ShopName: "桂花茶餐厅"}
	says.ValidFrom, says.ValidUntil = "2026-11-11T12:00:00Z", "2026-12-31T16:00:00Z"
	v := e.sale(stock, func(b map[string]any) {
		b["title"], b["sub_title"], b["rules"], b["shop_id"] = says.Title, says.SubTitle, says.Rules, says.ShopID
		b["valid_from"], b["valid_until"] = says.ValidFrom, "2027-01-01T00:00:00+08:00"
	})
	return v, says
}

// replace changes everything that a voucher says, its value and the name of its shop, and takes it down.
func (e *environment) replace(v voucherView, says boughtView) {
	e.t.Helper()
	admin := e.admin()
	admin.patch("/api/v1/admin/shops/"+says.ShopID, map[string]any{"name": "Another name"}).want(http.StatusOK)
	admin.patch(v.adminPath(), map[string]any{
		"title": "Breakfast", "sub_title": "", "rules": "Mondays only", "shop_id": "77", "actual_value": 9000, "status": "off",
		"valid_from": nil, "valid_until": nil,
	}).want(http.StatusOK)
}

// After the sale the voucher is changed and taken down, and its shop renamed. Every view of the order shows what was bought.
// Source: PrestaShop/PrestaShop#21712, Sylius/Sylius#8628, openfoodfoundation/openfoodnetwork#13969.
func TestOrderKeepsWhatWasBought(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
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

		require.Equal(t, says, decode[boughtView](admin.get("/api/v1/admin/orders/"+o.ID).want(http.StatusOK)))
		found := decode[listView[describedOrder]](admin.get("/api/v1/admin/orders?voucher_id=" + v.ID).want(http.StatusOK))
		require.Equal(t, says, found.Items[0].boughtView)
		row := admin.get("/api/v1/admin/orders.csv").file()[0]
		require.Equal(t, says, boughtView{
			row["title"], row["sub_title"], row["rules"], row["shop_id"], row["shop_name"],
			strings.Replace(row["valid_from_utc"], " ", "T", 1) + "Z", strings.Replace(row["valid_until_utc"], " ", "T", 1) + "Z",
		})
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

// TestOfferIsStoredBeforeItsOrders: no purchase is committed without its texts. Lane queue admits without the database, with the texts
// of the admission, however long the order waits.
func TestOfferIsStoredBeforeItsOrders(t *testing.T) {
	e := start(t)
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
	orders := []string{q.buyer(1).queue(v)}
	q.exec("ALTER TABLE gone RENAME TO offers")
	orders = append(orders, q.buyer(2).queue(v))
	q.replace(v, says)
	list := decode[listView[describedOrder]](q.buyer(2).get("/api/v1/orders").want(http.StatusOK))
	require.Equal(t, says, list.Items[0].boughtView, "while it waits")
	q.work()
	for n, order := range orders {
		require.Equal(t, says, decode[boughtView](q.buyer(n+1).get(orderPath(order)).want(http.StatusOK)))
	}
}

const keyHeader = "Idempotency-Key"

func (c client) key(name string) client { return c.with(keyHeader, name) }

// same requires that the answer is a replay of first, to the byte.
func (a answer) same(first answer) {
	a.t.Helper()
	require.Equal(a.t, first.status, a.status, "%s: %s", a.what, a.body)
	require.Equal(a.t, string(first.body), string(a.body), a.what)
	for _, name := range []string{"Location", "Content-Type"} {
		require.Equal(a.t, first.header[name], a.header[name], a.what)
	}
	require.Equal(a.t, "true", a.header.Get("Idempotency-Replayed"), a.what)
}

type keyed struct {
	name   string
	status int
	send   func(key string) answer
}

// keyedRequests returns a request for each route that supports keys.
func keyedRequests(e *queueEnv) []keyed {
	admin, buyer, other, v := e.admin(), e.buyer(1), e.buyer(2), e.sale(9)
	ordered := func(c client) orderView {
		o := orderView{ID: c.queue(v), Amount: 8000}
		e.work()
		return o
	}
	paid := func(c client) orderView {
		o := ordered(c)
		e.notify(e.noticeOf(c.pay(o).Payment, o, "succeeded")).want(http.StatusOK)
		return o
	}
	refunder, payer := e.buyer(11), e.buyer(13)
	unwanted, used, unpaid := paid(refunder), paid(e.buyer(12)), ordered(payer)
	order := buyer.queue(v)
	e.work()
	letter := func(n int) string {
		id := e.buyer(100 + n).queue(v)
		e.deadLetter("poison")
		for _, l := range decode[listView[deadLetterView]](admin.get(deadLettersPath).want(http.StatusOK)).Items {
			if l.OrderID == id {
				return deadLettersPath + "/" + l.ID
			}
		}
		e.t.Fatal("no dead letter")
		return ""
	}
	replay, discard := letter(1), letter(2)
	withPasses := e.passSale(1)
	return []keyed{
		{"place", http.StatusAccepted, func(k string) answer { return other.key(k).post(v.orders(), nil) }},
		{"cancel", http.StatusOK, func(k string) answer { return buyer.key(k).post(orderPath(order)+"/cancel", nil) }},
		{"create", http.StatusCreated, func(k string) answer { return admin.key(k).post("/api/v1/admin/vouchers", e.saleBody(3)) }},
		{"shop", http.StatusCreated, func(k string) answer {
			return admin.key(k).post("/api/v1/admin/shops", map[string]string{"name": "a"})
		}},
		{"pay", http.StatusOK, func(k string) answer { return payer.key(k).post(unpaid.path()+"/pay", nil) }},
		{"refund", http.StatusOK, func(k string) answer { return refunder.key(k).post(unwanted.path()+"/refund", nil) }},
		{"redeem", http.StatusOK, func(k string) answer {
			return admin.key(k).post("/api/v1/admin/orders/"+used.ID+"/redeem", nil)
		}},
		{"stock", http.StatusOK, func(k string) answer {
			return admin.key(k).post(v.adminPath()+"/stock", map[string]any{"delta": -1, "reason": "lost"})
		}},
		{"room", http.StatusOK, func(k string) answer {
			return admin.key(k).post(withPasses.adminPath()+"/room", map[string]any{"revoke": true})
		}},
		{"replay", http.StatusAccepted, func(k string) answer { return admin.key(k).post(replay+"/replay", nil) }},
		{"discard", http.StatusNoContent, func(k string) answer { return admin.key(k).post(discard+"/discard", nil) }},
	}
}

func (e *environment) count(table string) (n int) {
	e.t.Helper()
	require.NoError(e.t, e.store.Pools()["write"].QueryRowContext(context.Background(), "SELECT COUNT(*) FROM "+table).Scan(&n))
	return n
}

// The refusal of an order is decided anew each time, and a failure leaves its key usable. Errors of other requests are replayed.
func TestKeyedErrorIsReplayedExceptForOrders(t *testing.T) {
	e := start(t)
	v := e.sale(1)
	holder, late := e.buyer(1), e.buyer(2)
	o := holder.place(v)
	require.Zero(t, e.count("idempotency_keys"), "a request without a key stores nothing")
	late.key("k").post(v.orders(), nil).problem(http.StatusConflict, "sold_out")
	holder.post(o.path()+"/cancel", nil).want(http.StatusOK)
	first := late.key("k").post(v.orders(), nil).want(http.StatusCreated)
	late.key("k").post(v.orders(), nil).same(first)
	assert.EqualValues(t, 0, e.stock(v.ID))

	other := e.sale(5)
	e.store.fail(func() error { return fmt.Errorf("no database") })
	late.key("l").post(other.orders(), nil).problem(http.StatusInternalServerError, "internal")
	e.store.fail(nil)
	e.locks.fail(fmt.Errorf("no locks"))
	late.key("l").post(other.orders(), nil).problem(http.StatusServiceUnavailable, "unavailable")
	e.locks.err.Store(nil)
	assert.EqualValues(t, 5, e.stock(other.ID))
	late.key("l").post(other.orders(), nil).want(http.StatusCreated)

	admin := e.admin()
	wrong := admin.bad().key("wrong").post("/api/v1/admin/vouchers", `{"shop_id":`)
	wrong.problem(http.StatusBadRequest, "invalid_request")
	admin.bad().key("wrong").post("/api/v1/admin/vouchers", `{"shop_id":`).same(wrong)
	gone := late.key("gone").post("/api/v1/orders/99/cancel", nil)
	gone.problem(http.StatusNotFound, "not_found")
	late.key("gone").post("/api/v1/orders/99/cancel", nil).same(gone)
}

// TestKeyInFlight: as many equal requests at the same time as a user may send place one order, and each has its answer.
func TestKeyInFlight(t *testing.T) {
	t.Parallel()
	for status, e := range map[int]*environment{http.StatusCreated: newEnv(t), http.StatusAccepted: newQueueEnv(t).environment} {
		v, buyer := e.sale(9), e.buyer(1).key("k")
		answers := make(chan answer, 200)
		for range cap(answers) {
			go func() { answers <- buyer.raw(http.MethodPost, v.orders(), nil) }()
		}
		ids := map[string]int{}
		for range cap(answers) {
			ids[decode[orderView]((<-answers).want(status)).ID]++
		}
		assert.Len(t, ids, 1, status)
	}
}

// TestKeyMismatch: a key with another path or body is refused and changes nothing.
func TestKeyMismatch(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		v, other, admin, buyer := e.sale(5), e.sale(5), e.admin(), e.buyer(1)
		first := buyer.key("k").post(v.orders(), nil).want(http.StatusCreated)
		created := admin.key("k").post("/api/v1/admin/vouchers", e.saleBody(3)).want(http.StatusCreated)
		before := e.dump()
		for _, a := range []answer{
			buyer.key("k").post(other.orders(), nil),
			buyer.bad().key("k").post(v.orders(), "{}"),
			admin.key("k").post("/api/v1/admin/vouchers", e.saleBody(4)),
		} {
			a.problem(http.StatusUnprocessableEntity, "idempotency_mismatch")
		}
		assert.Equal(t, before, e.dump())
		buyer.key("k").post(v.orders(), nil).same(first)
		admin.key("k").post("/api/v1/admin/vouchers", e.saleBody(3)).same(created)
		mine := e.buyer(2).key("k").post(v.orders(), nil).want(http.StatusCreated)
		assert.NotEqual(t, decode[orderView](first).ID, decode[orderView](mine).ID, "keys are per user")

		// The age at which the key of an order is forgotten by other routes is measured with the real clock.
		e.exec("UPDATE voucher_orders SET created_at = ?", time.Now().UTC())
		buyer.key("k").post(decode[orderView](first).path()+"/cancel", nil).problem(http.StatusUnprocessableEntity, "idempotency_mismatch")
	})
}

func TestInvalidKeysAreRefused(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		v, buyer := e.sale(5), e.buyer(1).bad()
		before := e.dump()
		for _, name := range []string{"", strings.Repeat("x", 256), "a\tb", "ü", "a\x80"} {
			p := buyer.key(name).post(v.orders(), nil).problem(http.StatusBadRequest, "invalid_request")
			assert.Equal(t, []string{keyHeader}, p.fields(), "%q", name)
		}
		two := buyer.key("a")
		two.header[keyHeader] = []string{"a", "b"}
		two.post(v.orders(), nil).problem(http.StatusBadRequest, "invalid_request")
		buyer.key("large").post(v.orders(), strings.Repeat("x", 65<<10)).problem(http.StatusBadRequest, "invalid_request")
		assert.Equal(t, before, e.dump())
		for i, name := range []string{"x", strings.Repeat("~", 255), `" !`} {
			first := e.buyer(1+i).key(name).post(v.orders(), nil).want(http.StatusCreated)
			e.buyer(1+i).key(name).post(v.orders(), nil).same(first)
		}
	})
}

// TestUnstorableAnswerIsNotSent: if the answer cannot be stored, the client gets 503 although the change was made. A
// retry after the lease has expired returns the answer, and the change is made once.
func TestUnstorableAnswerIsNotSent(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db option) {
		e := newQueueEnv(t, db)
		for _, r := range keyedRequests(e) {
			if r.name == "place" { // the answer is stored with the order
				r.send(r.name).want(r.status)
				continue
			}
			vouchers, shops, letters := e.count("vouchers"), e.count("shops"), len(decode[listView[deadLetterView]](e.admin().get(deadLettersPath)).Items)
			e.store.faults.Before(func(query string) error {
				if strings.HasPrefix(query, "UPDATE `idempotency_keys`") && strings.Contains(query, "`content_type`") {
					return domain.ErrUnavailable // it has an answer
				}
				return nil
			})
			a := r.send(r.name)
			a.problem(http.StatusServiceUnavailable, "unavailable")
			assert.Equal(t, 1, a.retryAfter(), r.name)
			assert.Empty(t, a.header.Get("Location"), r.name)
			e.store.fail(nil)
			if r.name == "pay" { // and the payment is completed before the retry
				begun := e.bank.created[len(e.bank.created)-1]
				e.notify(e.noticeOf(paymentView{Ref: begun.Ref}, orderView{ID: fmt.Sprint(begun.OrderID), Amount: 8000}, "succeeded")).want(http.StatusOK)
			}
			queued := len(e.waiting())
			e.exec("UPDATE idempotency_keys SET locked_until = created_at") // as after ten seconds
			second := r.send(r.name).want(r.status)
			assert.Empty(t, second.header.Get("Idempotency-Replayed"), r.name)
			before := e.dump()
			r.send(r.name).same(second)
			assert.Equal(t, before, e.dump(), r.name)
			assert.Len(t, e.waiting(), queued, r.name)
			switch r.name {
			case "create":
				assert.Equal(t, vouchers+1, e.count("vouchers"))
			case "shop":
				assert.Equal(t, shops+1, e.count("shops"))
			case "room":
				assert.Equal(t, 1, e.count("seckill_vouchers WHERE entry_epoch = 1"))
			case "replay", "discard":
				assert.Len(t, decode[listView[deadLetterView]](e.admin().get(deadLettersPath)).Items, letters-1)
			}
		}
		e.work()
		assert.Equal(t, 6, e.count("voucher_orders"), "four at the start, one new, one replayed")
		assert.Equal(t, 3, e.count("payments"))
		assert.Len(t, e.bank.created, 3)
		assert.Equal(t, 1, e.count("stock_changes"))
	})
}

// A dead letter is gone, but the audit log could not be written. The next request with the key has the answer of a success,
// and writes it.
func TestDeadLetterIsRecordedByRepetition(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	for _, r := range keyedRequests(e) {
		if r.name != "replay" && r.name != "discard" {
			continue
		}
		e.store.faults.Before(func(query string) error {
			if strings.HasPrefix(query, "INSERT INTO `audit_log`") {
				return domain.ErrUnavailable
			}
			return nil
		})
		r.send(r.name).problem(http.StatusServiceUnavailable, "unavailable")
		e.store.fail(nil)
		logged := e.count("audit_log")
		r.send(r.name).want(r.status)
		assert.Equal(t, logged+1, e.count("audit_log"), r.name)
	}
}

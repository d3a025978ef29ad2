package handler_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

type exportView struct {
	User     userView
	Sessions []struct {
		ExpiresAt string `json:"expires_at"`
	}
	LoginCodes    []struct{} `json:"login_codes"`
	SecondFactors []struct{} `json:"second_factors"`
	Orders        []struct {
		orderView

		Payments []struct{ Amount int64 }
		Events   []struct{ Type, Status string }
	}
	Actions         []struct{ Action string }
	AdminRequests   []struct{ Route string } `json:"admin_requests"`
	IdempotencyKeys []struct{ Key string }   `json:"idempotency_keys"`
	WaitingRooms    []struct {
		VoucherID string `json:"voucher_id"`
		Number    int
	} `json:"waiting_rooms"`
}

// exported returns the number of records that an export has of each table with personal data.
var exported = map[string]func(exportView) int{
	"users":            func(v exportView) int { return len(v.User.ID) },
	"sessions":         func(v exportView) int { return len(v.Sessions) },
	"login_codes":      func(v exportView) int { return len(v.LoginCodes) },
	"second_factors":   func(v exportView) int { return len(v.SecondFactors) },
	"voucher_orders":   func(v exportView) int { return len(v.Orders) },
	"payments":         func(v exportView) int { return len(v.Orders[0].Payments) },
	"order_events":     func(v exportView) int { return len(v.Orders[0].Events) },
	"audit_log":        func(v exportView) int { return len(v.Actions) },
	"admin_requests":   func(v exportView) int { return len(v.AdminRequests) },
	"idempotency_keys": func(v exportView) int { return len(v.IdempotencyKeys) },
	"room_places":      func(v exportView) int { return len(v.WaitingRooms) },
}

// notExported are the tables with data of persons that an export leaves out for the reasons in docs/security.md.
var notExported = []string{"stock_changes", "revocations", "payment_notices"}

// impersonal are the tables without data of persons.
var impersonal = []string{"shops", "vouchers", "seckill_vouchers", "images", "rooms", "room_log", "offers"}

// TestExportKnowsAllTables: a new table is in the export, or docs/security.md says why it is not, or it has no personal data.
func TestExportKnowsAllTables(t *testing.T) {
	e := start(t)
	rows, err := e.store.Pools()["write"].QueryContext(t.Context(),
		"SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'goose_db_version'")
	require.NoError(t, err)
	defer rows.Close()
	known := slices.Concat(slices.Collect(maps.Keys(exported)), notExported, impersonal)
	for rows.Next() {
		var table string
		require.NoError(t, rows.Scan(&table))
		assert.Contains(t, known, table)
		known = slices.DeleteFunc(known, func(name string) bool { return name == table })
	}
	require.NoError(t, rows.Err())
	assert.Empty(t, known, "tables that do not exist, or are listed twice")

	text := env.Must(os.ReadFile("../../docs/security.md"))(t)
	_, section, _ := strings.Cut(string(text), "## Personal data")
	columns, rest, _ := strings.Cut(section, "**Export.**")
	paragraph, _, _ := strings.Cut(rest, "**Deletion.**")
	for table := range exported {
		assert.Contains(t, columns, "`"+table+".")
	}
	for _, table := range notExported {
		assert.Contains(t, columns, "`"+table+".")
		assert.Contains(t, paragraph, "`"+table+"`")
	}
}

func TestExportHasAllDataOfTheUserAndNoSecrets(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		e.store.RecordEvents()
		v, room := e.sale(10), e.sale(10)
		authenticator := e.enroll("13800000001", domain.RoleOperator)
		c, other := e.buyer(1), e.buyer(2)
		e.login(c.login.User.Phone)
		c.post("/api/v1/admin/vouchers/"+v.ID+"/stock", map[string]any{"delta": 1, "reason": "counted"}).want(http.StatusOK)
		paid := decode[orderView](c.get(c.with("Idempotency-Key", "the-key").paid(v).Order.path()).want(http.StatusOK))
		require.NotEmpty(t, paid.RedeemCode)
		foreign := other.paid(v).Order
		roomID, userID := mustID(t, room.ID), mustID(t, c.login.User.ID)
		for _, user := range []int64{mustID(t, other.login.User.ID), userID} {
			env.Must(e.store.JoinRoom(t.Context(), roomID, []domain.PlaceRequest{{UserID: user, Lost: -1}}))(t)
		}

		a := c.get("/api/v1/me/export").want(http.StatusOK)
		assert.Equal(t, `attachment; filename="seckill-data.json"`, a.header.Get("Content-Disposition"))
		all := decode[exportView](a)
		require.Equal(t, []int{1, 1, 1}, []int{len(all.Orders), len(all.IdempotencyKeys), len(all.WaitingRooms)})
		for table, records := range exported {
			assert.Positive(t, records(all), table)
		}
		assert.Equal(t, c.login.User, all.User)
		assert.Equal(t, []int{2, 2, 3}, []int{len(all.LoginCodes), len(all.Sessions), len(all.AdminRequests)}, "two logins and a change")
		assert.Equal(t, paid.ID, all.Orders[0].ID)
		assert.Equal(t, "the-key", all.IdempotencyKeys[0].Key)
		assert.Equal(t, 1, all.WaitingRooms[0].Number)

		for what, secret := range map[string]string{
			"access token": c.token, "refresh token": c.login.RefreshToken, "redeem code": paid.RedeemCode, "TOTP secret": authenticator.key.Secret(),
			"session id": strings.Split(c.login.RefreshToken, ".")[0], "another user's phone": other.login.User.Phone,
			"another user's id": `_id":"` + other.login.User.ID + `"`, "another user's order": foreign.ID,
		} {
			require.NotEmpty(t, secret, what)
			assert.NotContains(t, string(a.body), secret, what)
		}
	})
}

// The export of a user with many orders has several pages.
func TestExportOfManyOrders(t *testing.T) {
	env.Full(t)
	e := start(t)
	v, c := e.sale(1000), e.buyer(1)
	seen := map[string]bool{}
	for range 2*domain.MaxPageSize + 1 {
		o := c.place(v)
		c.post(o.path()+"/cancel", nil).want(http.StatusOK)
		seen[o.ID] = true
	}
	all := decode[exportView](c.get("/api/v1/me/export").want(http.StatusOK))
	assert.Len(t, all.Orders, len(seen))
	assert.Len(t, all.Actions, len(seen))
	for _, o := range all.Orders {
		delete(seen, o.ID)
	}
	assert.Empty(t, seen)
}

// A client must not take the part of an export that was sent before a failure for the whole.
func TestExportThatFailsMidwayBreaksOff(t *testing.T) {
	e := start(t)
	c := e.buyer(1)
	e.store.failFrom(3)           // after the user and the orders
	e.http.CloseIdleConnections() // a request on a used connection would be repeated
	res, err := e.http.Do(c.request(e.url, http.MethodGet, "/api/v1/me/export", nil))
	if err == nil {
		defer res.Body.Close()
		var all exportView
		err = json.NewDecoder(res.Body).Decode(&all)
	}
	require.Error(t, err)
}

func TestExportsAreLimitedPerUser(t *testing.T) {
	e := start(t, func(s *setup) { s.rateLimit = true })
	c, other := e.buyer(1), e.buyer(2)
	for range 2 {
		c.get("/api/v1/me/export").want(http.StatusOK)
	}
	assert.Greater(t, c.get("/api/v1/me/export").want(http.StatusTooManyRequests).retryAfter(), 30)
	other.get("/api/v1/me/export").want(http.StatusOK)
}

func TestDeletedAccount(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		two := newEnv(t, func(s *setup) { s.store = e.store })
		v, second := e.sale(10), e.sale(10)
		c, other := e.login(phone), e.buyer(2)
		elsewhere := e.login(phone)
		paid := decode[orderView](c.get(c.with("Idempotency-Key", "the-key").paid(v).Order.path()).want(http.StatusOK))
		unpaid := decode[orderView](c.post(second.orders(), nil).want(http.StatusCreated))
		e.sendCode(phone).want(http.StatusOK)
		code := e.outbox.code(phone)
		require.Contains(t, e.dump(), phone)
		require.Contains(t, e.dumpOf("idempotency_keys"), "the-key")

		c.do(http.MethodDelete, "/api/v1/me", nil).want(http.StatusNoContent)

		assert.EqualValues(t, 10, e.stock(second.ID), "the unit of the unpaid order is back")
		e.checkInvariants()
		for _, old := range []client{c, elsewhere} {
			old.get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")
			e.refresh(old.login.RefreshToken).problem(http.StatusUnauthorized, "unauthenticated")
		}
		require.NoError(t, two.revoked.Load(t.Context())) // as the poller does twice per second
		two.as(elsewhere.token).get("/api/v1/orders").problem(http.StatusUnauthorized, "unauthenticated")
		e.refresh(other.login.RefreshToken).want(http.StatusOK)
		e.tryCode(phone, code).problem(http.StatusUnauthorized, "unauthenticated")

		dump := e.dump()
		assert.NotContains(t, dump, phone)
		assert.Contains(t, dump, "voucher_orders ["+paid.ID+" "+c.login.User.ID, "the order and its user id stay")
		assert.NotContains(t, e.dumpOf("idempotency_keys"), "the-key")

		admin := e.admin()
		shown := decode[struct{ Status, Phone string }](admin.get("/api/v1/admin/orders/" + unpaid.ID).want(http.StatusOK))
		assert.Equal(t, "cancelled", shown.Status)
		assert.Empty(t, shown.Phone)
		admin.post("/api/v1/admin/redeem", map[string]string{"code": paid.RedeemCode}).want(http.StatusOK)

		again := e.login(phone)
		assert.NotEqual(t, c.login.User.ID, again.login.User.ID, "the phone has a new account")
		assert.Empty(t, decode[listView[orderView]](again.get("/api/v1/orders").want(http.StatusOK)).Items)
		again.post(v.orders(), nil).want(http.StatusCreated)
	})
}

func TestAccountWithRoleIsNotDeleted(t *testing.T) {
	e := start(t)
	admin := e.admin()
	admin.do(http.MethodDelete, "/api/v1/me", nil).problem(http.StatusConflict, "invalid_state")
	admin.get("/api/v1/me").want(http.StatusOK)

	e = newEnv(t, withFactors)
	admin = e.login(adminPhone)
	require.Equal(t, "buyer", admin.login.User.Role, "before the enrolment")
	admin.do(http.MethodDelete, "/api/v1/me", nil).problem(http.StatusConflict, "invalid_state")
}

// A deletion that was interrupted after the cancellation can be repeated.
func TestDeletionCanBeRepeated(t *testing.T) {
	e := start(t)
	v, c := e.sale(10), e.buyer(1)
	c.post(v.orders(), nil).want(http.StatusCreated)
	e.store.failFrom(4) // after the user, the list of orders and the cancellation
	c.do(http.MethodDelete, "/api/v1/me", nil).problem(http.StatusServiceUnavailable, "unavailable")
	e.store.fail(nil)
	c.get("/api/v1/me").want(http.StatusOK)
	c.do(http.MethodDelete, "/api/v1/me", nil).want(http.StatusNoContent)
	c.do(http.MethodDelete, "/api/v1/me", nil).problem(http.StatusUnauthorized, "unauthenticated")
	assert.EqualValues(t, 10, e.stock(v.ID))
}

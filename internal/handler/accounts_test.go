package handler_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/handler"
	"seckill/internal/kit/ratelimit"
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

// notExported are the tables with data of persons that an export leaves out for the reasons in docs/operations.md.
var notExported = []string{"stock_changes", "revocations", "payment_notices"}

// impersonal are the tables without data of persons.
var impersonal = []string{"shops", "vouchers", "seckill_vouchers", "images", "rooms", "room_log", "offers"}

// TestExportKnowsAllTables: a new table is in the export, or docs/operations.md says why it is not, or it has no personal data.
func TestExportKnowsAllTables(t *testing.T) {
	e := start(t)
	_, tables := env.Query(t, e.store.Pools()["write"],
		"SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'goose_db_version'")
	known := slices.Concat(slices.Collect(maps.Keys(exported)), notExported, impersonal)
	for _, table := range tables {
		assert.Contains(t, known, table[0])
		known = slices.DeleteFunc(known, func(name string) bool { return name == table[0] })
	}
	assert.Empty(t, known, "tables that do not exist, or are listed twice")

	text := env.Must(os.ReadFile("../../docs/operations.md"))(t)
	_, section, found := strings.Cut(string(text), "\n## Personal data\n")
	require.True(t, found)
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
	for range 3 {
		c.send(c.request(e.url, http.MethodHead, "/api/v1/me/export", nil)).want(http.StatusOK) // is no export
	}
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
		for _, old := range []client{c, elsewhere} {
			old.get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")
			e.refresh(old.login.RefreshToken).problem(http.StatusUnauthorized, "unauthenticated")
		}
		require.NoError(t, two.revoked.Load(t.Context())) // as the poller does twice per second
		two.as(elsewhere.token).get("/api/v1/orders").problem(http.StatusUnauthorized, "unauthenticated")
		e.refresh(other.login.RefreshToken).want(http.StatusOK)
		e.tryCode(phone, code).problem(http.StatusUnauthorized, "unauthenticated")

		again := auth.Erasure{UserID: mustID(t, c.login.User.ID), Now: e.clock.now()}
		assert.Empty(t, env.Must(e.store.EraseUser(t.Context(), again))(t))
		assert.Equal(t, 2, env.Must(e.store.PurgeSessions(t.Context(), e.clock.now().Add(time.Millisecond)))(t), "both sessions have ended")

		dump := e.dump()
		assert.NotContains(t, dump, phone)
		assert.Contains(t, dump, "voucher_orders ["+paid.ID+" "+c.login.User.ID, "the order and its user id stay")
		assert.NotContains(t, e.dumpOf("idempotency_keys"), "the-key")

		admin := e.admin()
		shown := decode[struct{ Status, Phone string }](admin.get("/api/v1/admin/orders/" + unpaid.ID).want(http.StatusOK))
		assert.Equal(t, "cancelled", shown.Status)
		assert.Empty(t, shown.Phone)
		admin.post("/api/v1/admin/redeem", map[string]string{"code": paid.RedeemCode}).want(http.StatusOK)

		newcomer := e.login(phone)
		assert.NotEqual(t, c.login.User.ID, newcomer.login.User.ID, "the phone has a new account")
		assert.Empty(t, decode[listView[orderView]](newcomer.get("/api/v1/orders").want(http.StatusOK)).Items)
		newcomer.post(v.orders(), nil).want(http.StatusCreated)
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

const operatorPhone = "13900000002"

type app struct {
	e   *environment
	key *otp.Key
}

func (e *environment) enroll(phone string, role domain.Role) app {
	e.t.Helper()
	_, key, err := e.admins.Enroll(e.t.Context(), phone, role, nil)
	require.NoError(e.t, err)
	return app{e, key}
}

// password returns the password that the app shows after the given number of steps of 30 s.
func (a app) password(steps int) string {
	a.e.t.Helper()
	return env.Must(totp.GenerateCode(a.key.Secret(), a.e.clock.now().Add(time.Duration(steps)*30*time.Second)))(a.e.t)
}

func (e *environment) tryTOTP(phone, password string) answer {
	e.t.Helper()
	body := map[string]string{"phone": phone, "code": e.outbox.code(phone)}
	if password != "" {
		body["totp"] = password
	}
	return e.guest().post("/api/v1/auth/login", body)
}

func withFactors(s *setup) { s.factors = true }

// TestLoginWithSecondFactor: package auth has the passwords that are valid.
func TestLoginWithSecondFactor(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		app := e.enroll(operatorPhone, domain.RoleOperator)
		e.sendCode(operatorPhone).want(http.StatusOK)
		assert.Equal(t, "The second factor is required", e.tryTOTP(operatorPhone, "").problem(http.StatusUnauthorized, "totp_required").Title)
		wrong := e.tryTOTP(operatorPhone, otherCode(app.password(0))).problem(http.StatusUnauthorized, "totp_required")
		assert.Equal(t, "The second factor is wrong or used up", wrong.Title)
		l := decode[loginView](e.tryTOTP(operatorPhone, app.password(0)).want(http.StatusOK)) // the code is still valid

		for range 2 { // the session keeps its second factor
			assert.Equal(t, "operator", l.User.Role)
			operator := e.as(l.AccessToken)
			operator.get("/api/v1/admin/orders").want(http.StatusOK)
			assert.Equal(t, "operator", decode[userView](operator.get("/api/v1/me").want(http.StatusOK)).Role)
			l = decode[loginView](e.refresh(l.RefreshToken).want(http.StatusOK))
		}

		e.sendCode(operatorPhone).want(http.StatusOK)
		e.tryTOTP(operatorPhone, app.password(0)).problem(http.StatusUnauthorized, "totp_required") // used
		e.login(phone)                                                                              // buyers need none
	}, withFactors)
}

// TestWrongSecondFactorIsAGuess: five wrong passwords of the app use up the login code. Refusals without one are recorded once a minute.
func TestWrongSecondFactorIsAGuess(t *testing.T) {
	eachEnv(t, func(t *testing.T, e *environment) {
		app := e.enroll(operatorPhone, domain.RoleOperator)
		e.sendCode(operatorPhone).want(http.StatusOK)
		for range 5 {
			e.tryTOTP(operatorPhone, otherCode(app.password(0))).problem(http.StatusUnauthorized, "totp_required")
			e.tryTOTP(operatorPhone, "").want(http.StatusUnauthorized)
		}
		e.tryTOTP(operatorPhone, app.password(0)).problem(http.StatusUnauthorized, "unauthenticated")
		e.clock.advance(time.Second) // the newer of two codes counts
		e.sendCode(operatorPhone).want(http.StatusOK)
		e.tryTOTP(operatorPhone, app.password(0)).want(http.StatusOK)

		var recorded []string
		list := env.Must(e.store.AdminRequests(t.Context(), domain.RequestFilter{Page: domain.Page{Limit: 100}}))(t)
		for _, r := range list {
			recorded = append(recorded, fmt.Sprintf("%s %s %d", r.Role, r.Route, r.Status))
		}
		refused := "buyer /api/v1/auth/login 401"
		require.Equal(t, append([]string{"operator /api/v1/auth/login 200"}, slices.Repeat([]string{refused}, 5+1)...), recorded)
	}, withFactors)
}

// TestRoleWithoutSecondFactor: outside demo mode, roles above viewer are not in effect before the enrolment, in sessions
// that are older than it, and in sessions of the hm-dianping pages.
func TestRoleWithoutSecondFactor(t *testing.T) {
	e := start(t, withFactors)
	for range 2 {
		admin := e.login(adminPhone)
		assert.Equal(t, "buyer", admin.login.User.Role)
		admin.get("/api/v1/admin/orders").problem(http.StatusForbidden, "forbidden")
	}
	assert.Len(t, e.logs.of("WARN"), 2)
	before := e.login(adminPhone)
	app := e.enroll(adminPhone, "")
	require.NoError(t, e.revoked.Load(t.Context()))
	before.get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")
	e.refresh(before.login.RefreshToken).problem(http.StatusUnauthorized, "unauthenticated")

	old := newEnv(t, func(s *setup) { s.store = e.store }) // as in demo mode: a session without a second factor
	session := old.login(adminPhone).login
	assert.Equal(t, "admin", session.User.Role)
	assert.Equal(t, "buyer", decode[loginView](e.refresh(session.RefreshToken).want(http.StatusOK)).User.Role)

	e.pageOf(adminPhone).post("/voucher/seckill", map[string]any{}).fails("没有权限")

	e.sendCode(adminPhone).want(http.StatusOK)
	l := decode[loginView](e.tryTOTP(adminPhone, app.password(0)).want(http.StatusOK))
	assert.Equal(t, "admin", l.User.Role)
	assert.Equal(t, "viewer", e.staff("13900000003", domain.RoleViewer).login.User.Role, "viewers need no second factor")

	env.Must(e.admins.Remove(t.Context(), adminPhone))(t)
	require.NoError(t, e.revoked.Load(t.Context()))
	e.as(l.AccessToken).get("/api/v1/admin/orders").problem(http.StatusUnauthorized, "unauthenticated")
	assert.Equal(t, "buyer", e.login(adminPhone).login.User.Role)
}

// changeSecret returns a server whose newest secret is another one than that of e, on the same database. old is whether
// it still accepts the secret of e.
func (e *environment) changeSecret(old bool, options ...option) *environment {
	e.t.Helper()
	secrets := [][]byte{[]byte("the next signing secret, 39 bytes long.")}
	if old {
		secrets = append(secrets, secret)
	}
	return newEnv(e.t, append(options, func(s *setup) { s.store, s.keys = e.store, domain.NewKeyring(secrets...) })...)
}

// TestChangeOfSecret: while the old secret is listed, a list that was begun before the change goes on, and a code that was sent before it
// is accepted, even from a client without a login id, whose request is found by its address.
func TestChangeOfSecret(t *testing.T) {
	e := start(t)
	first, second := e.sale(1), e.sale(1)
	list := decode[listView[voucherView]](e.guest().get(vouchersPath + "?limit=1").want(http.StatusOK))
	require.Equal(t, []string{second.ID}, idsOf(list.Items))
	next := vouchersPath + "?cursor=" + *list.NextCursor
	e.sendCode(phone).want(http.StatusOK)
	code := e.outbox.code(phone)

	dropped, changed := e.changeSecret(false), e.changeSecret(true)
	dropped.guest().bad().get(next).problem(http.StatusBadRequest, "invalid_request")
	dropped.tryCode(phone, code).problem(http.StatusUnauthorized, "unauthenticated")
	rest := decode[listView[voucherView]](changed.guest().get(next).want(http.StatusOK))
	require.Equal(t, []string{first.ID}, idsOf(rest.Items))
	changed.tryCode(phone, code).want(http.StatusOK)
}

// TestSecondFactorSurvivesChangeOfSecret: a login encrypts the second factor with the newest secret. One that no secret
// decrypts any more must be enrolled again, and the answer says so.
func TestSecondFactorSurvivesChangeOfSecret(t *testing.T) {
	e := start(t, withFactors)
	app := e.enroll(operatorPhone, domain.RoleOperator)
	login := func(e *environment, password string) answer {
		body := e.credentials(operatorPhone)
		if password != "" {
			body["totp"] = password
		}
		return e.guest().post("/api/v1/auth/login", body)
	}
	login(e, app.password(-1)).want(http.StatusOK)
	dropped := e.changeSecret(false, withFactors)
	p := login(dropped, "").problem(http.StatusForbidden, "forbidden")
	require.Equal(t, "The second factor must be enrolled again", p.Title)
	login(dropped, app.password(0)).problem(http.StatusForbidden, "forbidden")
	require.Len(t, dropped.logs.of("WARN"), 2)

	login(e.changeSecret(true, withFactors), app.password(0)).want(http.StatusOK)
	login(dropped, app.password(1)).want(http.StatusOK)
}

// TestKnownDevice: a device stays known after a change of secret if it refreshed its session in between, and is a stranger
// after the user has logged out everywhere or deleted the account.
func TestKnownDevice(t *testing.T) {
	e := start(t)
	// known reports whether strangers cannot use up the codes of the device at the same address.
	known := func(e *environment, proof *http.Cookie) bool {
		e.clock.advance(time.Second)
		e.guest().withCookie(proof).post("/api/v1/auth/code", phoneBody(phone)).want(http.StatusOK)
		e.clock.advance(time.Second)
		body := map[string]string{"phone": phone, "code": e.outbox.code(phone)}
		return e.guest().post("/api/v1/auth/login", body).status == http.StatusUnauthorized
	}
	login := func(e *environment) (proof *http.Cookie, user client, refresh string) {
		a := e.guest().post("/api/v1/auth/login", e.credentials(phone)).want(http.StatusOK)
		l := decode[loginView](a)
		return a.cookieNamed("seckill_known"), e.as(l.AccessToken), l.RefreshToken
	}
	proof, _, token := login(e)
	require.True(t, known(e, proof))
	dropped := e.changeSecret(false)
	require.False(t, known(dropped, proof))
	changed := e.changeSecret(true)
	body := map[string]string{"refresh_token": token}
	renewed := changed.guest().withCookie(proof).post("/api/v1/auth/refresh", body).want(http.StatusOK).cookieNamed("seckill_known")
	require.True(t, known(dropped, renewed))

	proof, user, _ := login(e)
	user.post("/api/v1/auth/logout-all", nil).want(http.StatusNoContent)
	require.False(t, known(e, proof))
	proof, user, _ = login(e)
	require.True(t, known(e, proof))
	user.do("DELETE", "/api/v1/me", nil).want(http.StatusNoContent)
	login(e)
	require.False(t, known(e, proof), "the phone has a new account")
}

// behindProxy makes X-Forwarded-For the client's address.
func behindProxy(s *setup) {
	s.limits, s.rateLimit = true, true
	s.change = func(c *handler.Config) { c.TrustedProxies = []string{"127.0.0.1"} }
}

func (c client) at(address string) client { return c.with("X-Forwarded-For", address) }

// person is a client at an address that stores cookies and login ids like a page, or like an app without cookies.
type person struct {
	client
	phone   string
	cookies bool
	known   *http.Cookie
}

func (p *person) send() answer {
	c := p.client
	if p.cookies {
		c = c.with("X-Refresh-Token", "cookie")
	}
	if p.known != nil {
		c = c.withCookie(p.known)
	}
	return c.post("/api/v1/auth/code", phoneBody(p.phone))
}

func (p *person) login(sent answer, code string) answer {
	body := map[string]string{"phone": p.phone, "code": code}
	c := p.client
	if p.cookies {
		c = c.with("X-Refresh-Token", "cookie").withCookie(sent.cookieNamed("seckill_login"))
	} else {
		body["login_id"] = decode[sentView](sent).LoginID
	}
	if p.known != nil {
		c = c.withCookie(p.known)
	}
	a := c.post("/api/v1/auth/login", body)
	if p.cookies && a.status == http.StatusOK {
		p.known = a.cookieNamed("seckill_known")
	}
	return a
}

// An owner logs in six times within twelve minutes, each time 8 seconds after the request for the code. A stranger
// makes two wrong guesses a second, with and without a login id, and requests codes all the time, over two servers. A
// stranger behind the owner's address also uses up the logins of that address twice, when the owner's device is known.
func TestStrangerCannotLockOwnerOut(t *testing.T) {
	env.FullParallel(t)
	rdb := env.StartRedis(t).Client(t)
	shared := &ratelimit.Shared{Redis: rdb, Timeout: time.Minute, Secret: secret, Log: slog.New(slog.DiscardHandler)}
	for name, tc := range map[string]struct {
		phone, stranger string
		cookies         bool
		flood           bool
	}{
		"page":                            {phone: phone, stranger: "198.51.100.9", cookies: true},
		"app without cookies":             {phone: "13800000002", stranger: "198.51.100.9"},
		"admin":                           {phone: adminPhone, stranger: "198.51.100.9", cookies: true},
		"page behind the same address":    {phone: "13800000003", stranger: "203.0.113.7", cookies: true, flood: true},
		"stranger in the same IPv4 /24":   {phone: "13800000004", stranger: "203.0.113.8", cookies: true},
		"page, stranger with an IPv6 /48": {phone: "13800000005", stranger: "2001:db8::1", cookies: true},
	} {
		t.Run(name, func(t *testing.T) {
			one := newEnv(t, behindProxy, func(s *setup) { s.shared = shared })
			two := newEnv(t, behindProxy, func(s *setup) { s.store, s.shared = one.store, shared })
			owner := &person{client: one.guest().at("203.0.113.7"), phone: tc.phone, cookies: tc.cookies}
			attack := func(second int) {
				stranger := &person{client: two.guest().at(tc.stranger), phone: tc.phone}
				if tc.stranger == "2001:db8::1" {
					stranger.client = two.guest().at(fmt.Sprintf("2001:db8:0:%x00::1", second%256))
				}
				for range 2 {
					two.tryCode(tc.phone, "000000")
					stranger.post("/api/v1/auth/login", map[string]string{"phone": tc.phone, "code": "000001"})
				}
				if sent := stranger.send(); sent.status == http.StatusOK {
					stranger.login(sent, "000002")
				}
			}
			for login := range 6 {
				sent := owner.send().want(http.StatusOK)
				code := one.outbox.code(tc.phone)
				for second := range 8 {
					attack(8*login + second)
					one.clock.advance(time.Second)
					two.clock.advance(time.Second)
				}
				if tc.flood && (login == 1 || login == 5) {
					stranger := one.guest().at(tc.stranger)
					guess := map[string]string{"phone": "13800000009", "code": "000000"}
					untilLimited(t, 1000, func() answer { return stranger.post("/api/v1/auth/login", guess) })
				}
				owner.login(sent, code).want(http.StatusOK)
				for _, key := range rdb.Keys(t.Context(), "*").Val() { // two minutes pass
					rdb.PExpire(t.Context(), key, max(time.Millisecond, rdb.PTTL(t.Context(), key).Val()-2*time.Minute))
				}
				one.clock.advance(2 * time.Minute)
				two.clock.advance(2 * time.Minute)
			}
		})
	}
}

// Twenty strangers at different addresses use up the codes of a phone for strangers. Its owner, whose device is known,
// still gets codes, and no more than 20 messages a day come from strangers.
func TestStrangersCannotUseUpOwnersCodes(t *testing.T) {
	e := start(t, behindProxy)
	owner := &person{client: e.guest().at("203.0.113.7"), phone: phone, cookies: true}
	owner.login(owner.send(), e.outbox.code(phone)).want(http.StatusOK)
	sent := 0
	for i := range 40 {
		if (&person{client: e.guest().at(fmt.Sprintf("198.51.%d.9", i)), phone: phone}).send().status == http.StatusOK {
			sent++
		}
	}
	assert.Equal(t, 12-1, sent, "all strangers share the codes of a phone; the owner was a stranger once")
	owner.login(owner.send().want(http.StatusOK), e.outbox.code(phone)).want(http.StatusOK)
	owner.client = e.guest().at("198.51.100.77") // the device moves to another network
	owner.login(owner.send().want(http.StatusOK), e.outbox.code(phone)).want(http.StatusOK)

	other := &person{client: e.guest().at("198.51.100.9"), phone: "13800000002", cookies: true, known: owner.known}
	for i := range 40 {
		(&person{client: e.guest().at(fmt.Sprintf("198.51.%d.9", i)), phone: other.phone}).send()
	}
	other.send().problem(http.StatusTooManyRequests, "rate_limited") // a device is known for its own phone only
}

// A stranger's guess does the same whether or not the phone has requested a code or has an account.
func TestGuessesRevealNothing(t *testing.T) {
	e := start(t, behindProxy)
	e.login("13800000001")
	e.guest().at("203.0.113.7").post("/api/v1/auth/code", phoneBody("13800000002")).want(http.StatusOK)
	before := e.dump()
	answers := map[string]int{}
	for _, victim := range []string{"13800000001", "13800000002", "13800000003"} {
		for _, id := range []string{"", "JBSWY3DPEHPK3PXPJBSWY3DPEH"} {
			body := map[string]string{"phone": victim, "code": "000000", "login_id": id}
			p := e.guest().at("198.51.100.9").post("/api/v1/auth/login", body).problem(http.StatusUnauthorized, "unauthenticated")
			p.RequestID = ""
			answers[fmt.Sprint(p)]++
		}
	}
	assert.Len(t, answers, 1)
	assert.Equal(t, before, e.dump(), "no guess is stored")
}

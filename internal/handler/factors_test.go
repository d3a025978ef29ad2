package handler_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

const operatorPhone = "13900000002"

// app is the authenticator app of a user.
type app struct {
	e   *env
	key *otp.Key
}

func (e *env) enroll(phone string, role domain.Role) app {
	e.t.Helper()
	_, key, err := e.admins.Enroll(e.t.Context(), phone, role)
	require.NoError(e.t, err)
	return app{e, key}
}

// password returns the password that the app shows after the given number of steps of 30 s.
func (a app) password(steps int) string {
	a.e.t.Helper()
	code, err := totp.GenerateCode(a.key.Secret(), a.e.clock.now().Add(time.Duration(steps)*30*time.Second))
	require.NoError(a.e.t, err)
	return code
}

// tryTOTP logs in with the last login code and a second factor.
func (e *env) tryTOTP(phone, password string) answer {
	e.t.Helper()
	body := map[string]string{"phone": phone, "code": e.outbox.code(phone)}
	if password != "" {
		body["totp"] = password
	}
	return e.guest().post("/api/v1/auth/login", body)
}

func withFactors(s *setup) { s.factors = true }

func TestLoginWithSecondFactor(t *testing.T) {
	t.Parallel()
	e := newEnv(t, withFactors)
	app := e.enroll(operatorPhone, domain.RoleOperator)
	e.sendCode(operatorPhone).want(http.StatusOK)
	assert.Equal(t, "The second factor is required", e.tryTOTP(operatorPhone, "").problem(http.StatusUnauthorized, "totp_required").Title)
	wrong := e.tryTOTP(operatorPhone, otherCode(app.password(0))).problem(http.StatusUnauthorized, "totp_required")
	assert.Equal(t, "The second factor is wrong or used up", wrong.Title)
	l := decode[loginView](e.tryTOTP(operatorPhone, app.password(0)).want(http.StatusOK)) // the code is still valid
	assert.Equal(t, "operator", l.User.Role)
	operator := e.as(l.AccessToken)
	operator.get("/api/v1/admin/orders").want(http.StatusOK)
	assert.Equal(t, "operator", decode[userView](operator.get("/api/v1/me").want(http.StatusOK)).Role)

	l = decode[loginView](e.refresh(l.RefreshToken).want(http.StatusOK))
	assert.Equal(t, "operator", l.User.Role, "the session keeps its second factor")
	e.as(l.AccessToken).get("/api/v1/admin/orders").want(http.StatusOK)

	e.sendCode(operatorPhone).want(http.StatusOK)
	e.tryTOTP(operatorPhone, app.password(0)).problem(http.StatusUnauthorized, "totp_required") // used
	e.tryTOTP(operatorPhone, app.password(-1)).problem(http.StatusUnauthorized, "totp_required")
	e.tryTOTP(operatorPhone, app.password(1)).want(http.StatusOK)
	e.login(phone) // buyers need none
}

// TestWrongSecondFactorIsAGuess: five wrong passwords of the app use up the login code.
func TestWrongSecondFactorIsAGuess(t *testing.T) {
	t.Parallel()
	e := newEnv(t, withFactors)
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
	e.sendCode(adminPhone).want(http.StatusOK)
	require.Equal(t, []string{
		"buyer POST /auth/login  Unauthorized", "buyer POST /auth/login  Unauthorized", "buyer POST /auth/login  Unauthorized",
		"buyer POST /auth/login  Unauthorized", "buyer POST /auth/login  Unauthorized",
		"buyer POST /auth/login  Unauthorized", // the first of the requests without a password in this minute
		"operator POST /auth/login  OK",
	}, e.recorded())
}

// recorded returns all recorded requests, oldest first.
func (e *env) recorded() (brief []string) {
	e.t.Helper()
	list, err := e.store.AdminRequests(e.t.Context(), domain.RequestFilter{Page: domain.Page{Limit: 100}})
	require.NoError(e.t, err)
	for _, r := range list {
		v := requestView{Role: string(r.Role), Method: r.Method, Route: r.Route, Target: r.Target, Status: &r.Status}
		brief = append([]string{v.brief()}, brief...)
	}
	return brief
}

// TestRoleWithoutSecondFactor: outside demo mode, roles above viewer are not in effect before the enrolment, in sessions
// that are older than it, and in sessions of the hm-dianping pages.
func TestRoleWithoutSecondFactor(t *testing.T) {
	t.Parallel()
	e := newEnv(t, withFactors)
	for range 2 {
		admin := e.login(adminPhone)
		assert.Equal(t, "buyer", admin.login.User.Role)
		admin.get("/api/v1/admin/orders").problem(http.StatusForbidden, "forbidden")
	}
	assert.Len(t, e.logs.of("WARN"), 1)
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

	_, err := e.admins.Remove(t.Context(), adminPhone)
	require.NoError(t, err)
	require.NoError(t, e.revoked.Load(t.Context()))
	e.as(l.AccessToken).get("/api/v1/admin/orders").problem(http.StatusUnauthorized, "unauthenticated")
	assert.Equal(t, "buyer", e.login(adminPhone).login.User.Role)
}

// changeSecret returns a server whose newest secret is another one than that of e, on the same database. old is whether
// it still accepts the secret of e.
func (e *env) changeSecret(old bool, options ...option) *env {
	e.t.Helper()
	secrets := [][]byte{[]byte("the next signing secret, 39 bytes long.")}
	if old {
		secrets = append(secrets, secret)
	}
	return newEnv(e.t, append(options, func(s *setup) { s.store, s.keys = e.store, domain.NewKeyring(secrets...) })...)
}

// TestCursorSurvivesChangeOfSecret: a list that was begun before a change of secret goes on while the old one is listed.
func TestCursorSurvivesChangeOfSecret(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for range 3 {
		e.sale(1)
	}
	page := func(e *env, cursor string) answer { return e.guest().get("/api/v1/vouchers?limit=1" + cursor) }
	first := decode[listView[voucherView]](page(e, "").want(http.StatusOK))
	changed := e.changeSecret(true)
	second := decode[listView[voucherView]](page(changed, "&cursor="+*first.NextCursor).want(http.StatusOK))
	dropped := e.changeSecret(false)
	third := decode[listView[voucherView]](page(dropped, "&cursor="+*second.NextCursor).want(http.StatusOK))
	require.NotEqual(t, first.Items[0].ID, second.Items[0].ID)
	require.NotEqual(t, second.Items[0].ID, third.Items[0].ID)
	dropped.guest().bad().get("/api/v1/vouchers?cursor="+*first.NextCursor).problem(http.StatusBadRequest, "invalid_request")
}

// TestLoginSurvivesChangeOfSecret: a code that was sent before a change of secret is accepted after it, even from a client
// without a login id, whose request is found by its address.
func TestLoginSurvivesChangeOfSecret(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.sendCode(phone).want(http.StatusOK)
	body := map[string]string{"phone": phone, "code": e.outbox.code(phone)}
	e.changeSecret(false).guest().post("/api/v1/auth/login", body).problem(http.StatusUnauthorized, "unauthenticated")
	e.changeSecret(true).guest().post("/api/v1/auth/login", body).want(http.StatusOK)
}

// TestSecondFactorSurvivesChangeOfSecret: a login encrypts the second factor with the newest secret. One that no secret
// decrypts any more must be enrolled again, and the answer says so.
func TestSecondFactorSurvivesChangeOfSecret(t *testing.T) {
	t.Parallel()
	e := newEnv(t, withFactors)
	app := e.enroll(operatorPhone, domain.RoleOperator)
	login := func(e *env, password string) answer {
		id := decode[sentView](e.sendCode(operatorPhone).want(http.StatusOK)).LoginID
		body := map[string]string{"phone": operatorPhone, "code": e.outbox.code(operatorPhone), "login_id": id}
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
	require.Len(t, dropped.logs.of("WARN"), 1)

	login(e.changeSecret(true, withFactors), app.password(0)).want(http.StatusOK)
	login(dropped, app.password(1)).want(http.StatusOK)
}

// TestKnownDevice: a device stays known after a change of secret if it refreshed its session in between, and is a stranger
// after the user has logged out everywhere or deleted the account.
func TestKnownDevice(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	// known reports whether strangers cannot use up the codes of the device at the same address.
	known := func(e *env, proof *http.Cookie) bool {
		e.clock.advance(time.Second)
		e.guest().withCookie(proof).post("/api/v1/auth/code", phoneBody(phone)).want(http.StatusOK)
		e.clock.advance(time.Second)
		body := map[string]string{"phone": phone, "code": e.outbox.code(phone)}
		return e.guest().post("/api/v1/auth/login", body).status == http.StatusUnauthorized
	}
	login := func(e *env) (proof *http.Cookie, user client, refresh string) {
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
	require.False(t, known(e, proof))
	login(e)
	require.False(t, known(e, proof), "the phone has a new account")
}

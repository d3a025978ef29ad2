package handler_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

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

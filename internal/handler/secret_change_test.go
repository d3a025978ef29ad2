package handler_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// changeSecret returns a server whose newest secret is another one than that of e, on the same database. old is whether
// it still accepts the secret of e.
func (e *env) changeSecret(old bool, options ...func(*setup)) *env {
	e.t.Helper()
	secrets := [][]byte{[]byte("the next signing secret, 39 bytes long.")}
	if old {
		secrets = append(secrets, secret)
	}
	return newEnv(e.t, nil, append(options, func(s *setup) { s.store, s.keys = e.store, domain.NewKeyring(secrets...) })...)
}

// TestCursorSurvivesChangeOfSecret: a list that was begun before a change of secret goes on while the old one is listed.
func TestCursorSurvivesChangeOfSecret(t *testing.T) {
	t.Parallel()
	e := newEnv(t, sqlite)
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
	eachDatabase(t, func(t *testing.T, db database) {
		e := newEnv(t, db)
		e.sendCode(phone).want(http.StatusOK)
		body := map[string]string{"phone": phone, "code": e.outbox.code(phone)}
		e.changeSecret(false).guest().post("/api/v1/auth/login", body).problem(http.StatusUnauthorized, "unauthenticated")
		e.changeSecret(true).guest().post("/api/v1/auth/login", body).want(http.StatusOK)
	})
}

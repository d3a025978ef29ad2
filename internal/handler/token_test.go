package handler_test

import (
	"context"
	"encoding/base64"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// goodClaims returns the claims of a valid token.
func (e *env) goodClaims(userID string) jwt.MapClaims {
	return jwt.MapClaims{
		"iss": "seckill", "aud": "seckill", "sub": userID, "sid": "00112233445566778899aabbccddeeff", "role": "admin",
		"iat": e.clock.now().Unix(), "exp": e.clock.now().Add(10 * time.Minute).Unix(),
	}
}

func sign(t testing.TB, method jwt.SigningMethod, key any, claims jwt.Claims) string {
	t.Helper()
	token, err := jwt.NewWithClaims(method, claims).SignedString(key)
	require.NoError(t, err)
	return token
}

// relabel signs with HMAC-SHA256 and the right key, under a different header.
func relabel(t testing.TB, header string, claims jwt.MapClaims) string {
	t.Helper()
	whole := sign(t, jwt.SigningMethodHS256, secret, claims)
	token, _, err := jwt.NewParser().ParseUnverified(whole, jwt.MapClaims{})
	require.NoError(t, err)
	payload, err := token.SigningString()
	require.NoError(t, err)
	dot := len(payload) - 1
	for payload[dot] != '.' {
		dot--
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + payload[dot:]
	sig, err := jwt.SigningMethodHS256.Sign(text, secret)
	require.NoError(t, err)
	return text + "." + base64.RawURLEncoding.EncodeToString(sig)
}

func TestInvalidTokens(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	user := e.login(phone).login.User.ID
	hs256 := func(claim string, value any) string { // a valid token with one claim changed, or removed if value is nil
		c := e.goodClaims(user)
		if c[claim] = value; value == nil {
			delete(c, claim)
		}
		return sign(t, jwt.SigningMethodHS256, secret, c)
	}
	good := hs256("iss", "seckill")
	e.as(good).get("/api/v1/me").want(http.StatusOK) // the base of the following variants is valid
	years := func(issued any) string {               // a token that expires in ten years
		c := e.goodClaims(user)
		c["iat"], c["exp"] = issued, e.clock.now().AddDate(10, 0, 0).Unix()
		if issued == nil {
			delete(c, "iat")
		}
		return sign(t, jwt.SigningMethodHS256, secret, c)
	}
	lasting := func(role string, ttl time.Duration) string {
		c := e.goodClaims(user)
		c["role"], c["exp"] = role, e.clock.now().Add(ttl).Unix()
		return sign(t, jwt.SigningMethodHS256, secret, c)
	}
	e.as(lasting("buyer", 24*time.Hour)).get("/api/v1/me").want(http.StatusOK)
	past := e.clock.now().Add(-time.Second).Unix()
	forged := []byte("another secret that is long enough to sign")

	for name, tc := range map[string]struct{ token, code string }{
		"other secret":    {sign(t, jwt.SigningMethodHS256, forged, e.goodClaims(user)), "unauthenticated"},
		"expired":         {hs256("exp", past), "token_expired"},
		"expires now":     {hs256("exp", e.clock.now().Unix()), "token_expired"},
		"expired, forged": {sign(t, jwt.SigningMethodHS256, forged, jwt.MapClaims{"sub": user, "exp": past}), "unauthenticated"},
		"none":            {sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, e.goodClaims(user)), "unauthenticated"},
		"None":            {relabel(t, `{"alg":"None","typ":"JWT"}`, e.goodClaims(user)), "unauthenticated"},
		"HS512":           {sign(t, jwt.SigningMethodHS512, secret, e.goodClaims(user)), "unauthenticated"},
		"called RS256":    {relabel(t, `{"alg":"RS256","typ":"JWT"}`, e.goodClaims(user)), "unauthenticated"},
		"called hs256":    {relabel(t, `{"alg":"hs256","typ":"JWT"}`, e.goodClaims(user)), "unauthenticated"},
		"no alg":          {relabel(t, `{"typ":"JWT"}`, e.goodClaims(user)), "unauthenticated"},
		"wrong iss":       {hs256("iss", "elsewhere"), "unauthenticated"},
		"no iss":          {hs256("iss", nil), "unauthenticated"},
		"wrong aud":       {hs256("aud", "elsewhere"), "unauthenticated"},
		"no aud":          {hs256("aud", nil), "unauthenticated"},
		"no exp":          {hs256("exp", nil), "unauthenticated"},
		"exp is a word":   {hs256("exp", "tomorrow"), "unauthenticated"},
		"for years":       {hs256("exp", e.clock.now().AddDate(10, 0, 0).Unix()), "unauthenticated"},
		"admin, 16 min":   {lasting("admin", 16*time.Minute), "unauthenticated"},
		"no iat, years":   {years(nil), "unauthenticated"},
		"iat in future":   {years(e.clock.now().AddDate(10, 0, 0).Add(-time.Minute).Unix()), "unauthenticated"},
		"buyer, 25 h":     {lasting("buyer", 25*time.Hour), "unauthenticated"},
		"crit":            {relabel(t, `{"alg":"HS256","typ":"JWT","crit":["b64"],"b64":false}`, e.goodClaims(user)), "unauthenticated"},
		"empty crit":      {relabel(t, `{"alg":"HS256","typ":"JWT","crit":[]}`, e.goodClaims(user)), "unauthenticated"},
		"other spelling":  {good[:len(good)-1] + sameBits(good[len(good)-1]), "unauthenticated"},
		"not yet":         {hs256("nbf", e.clock.now().Add(time.Minute).Unix()), "unauthenticated"},
		"no sid":          {hs256("sid", nil), "unauthenticated"},
		"empty sid":       {hs256("sid", ""), "unauthenticated"},
		"sid is a number": {hs256("sid", 7), "unauthenticated"},
		"sub is a word":   {hs256("sub", "admin"), "unauthenticated"},
		"sub is a number": {hs256("sub", 1), "unauthenticated"},
		"sub is zero":     {hs256("sub", "0"), "unauthenticated"},
		"sub is negative": {hs256("sub", "-1"), "unauthenticated"},
		"sub is too long": {hs256("sub", "9223372036854775808"), "unauthenticated"},
		"no sub":          {hs256("sub", nil), "unauthenticated"},
		"no signature":    {good[:len(good)-43], "unauthenticated"},
		"one bit flipped": {good[:len(good)-10] + flip(good[len(good)-10]) + good[len(good)-9:], "unauthenticated"},
		"garbage":         {"garbage", "unauthenticated"},
		"three garbages":  {"a.b.c", "unauthenticated"},
		"dots":            {"..", "unauthenticated"},
		"very long":       {good + strings.Repeat("A", 4000), "unauthenticated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := e.as(tc.token).in(t)
			for _, a := range []answer{
				c.get("/api/v1/me"), c.get("/api/v1/orders"), c.post("/api/v1/vouchers/1/orders", nil),
				c.bad().post("/api/v1/admin/vouchers", "{}"),
			} {
				a.problem(http.StatusUnauthorized, tc.code)
				assert.Contains(t, a.header.Get("WWW-Authenticate"), "Bearer")
			}
		})
	}
}

// flip returns a different character of base64.
func flip(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

// sameBits returns another character for the end of an unpadded base64 text of 32 bytes, whose last two bits are unused.
func sameBits(c byte) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(digits[strings.IndexByte(digits, c)^1])
}

func TestAuthorizationHeader(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	token := e.login(phone).token
	for header, want := range map[string]int{
		"Bearer " + token:       http.StatusOK,
		"bearer " + token:       http.StatusOK, // schemes are case-insensitive (RFC 9110, 11.1)
		token:                   http.StatusUnauthorized,
		"":                      http.StatusUnauthorized,
		"Bearer":                http.StatusUnauthorized,
		"Bearer\t":              http.StatusUnauthorized,
		"Basic " + token:        http.StatusUnauthorized,
		"Bearer x" + token:      http.StatusUnauthorized,
		"Bearer " + token + ",": http.StatusUnauthorized,
		"Bearer" + token:        http.StatusUnauthorized,
	} {
		a := e.guest().bad().with("Authorization", header).get("/api/v1/me").want(want)
		assert.Equal(t, want == http.StatusUnauthorized, a.header.Get("WWW-Authenticate") != "", header)
	}
	e.guest().bad().get("/api/v1/me?access_token="+token).problem(http.StatusUnauthorized, "unauthenticated")
}

// TestAccessTokenExpires: an access token expires by the server's clock, and a refresh returns a valid one.
func TestAccessTokenExpires(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	c := e.login(phone)
	e.clock.advance(15*time.Minute - time.Second)
	c.get("/api/v1/me").want(http.StatusOK)
	e.clock.advance(time.Second)
	c.get("/api/v1/me").problem(http.StatusUnauthorized, "token_expired")
	l := decode[loginView](e.refresh(c.login.RefreshToken).want(http.StatusOK))
	e.as(l.AccessToken).get("/api/v1/me").want(http.StatusOK)
}

// TestTokenOfDeletedUser: a user whose row is removed by hand cannot buy with a token that is still valid, nor watch an
// order. Other users are not affected.
func TestTokenOfDeletedUser(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v, deleted, other := e.sale(5), e.login(phone), e.buyer(2)
	never := e.login(phone) // its token has not been used
	page := e.pageOf(phone)
	watch, _ := deleted.watch(t, deleted.place(v), "")
	watch.wantStatus("pending_payment", "2000000000")
	e.exec("DELETE FROM users WHERE phone = ?", phone)
	deleted.get("/api/v1/me").problem(http.StatusUnauthorized, "unauthenticated")

	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { e.auth.Run(ctx, slog.New(slog.DiscardHandler)) })
	defer running.Wait()
	defer stop()
	require.Nil(t, watch.next(), "the stream ends")
	for _, c := range []client{deleted, never} {
		c.post(v.orders(), nil).problem(http.StatusUnauthorized, "unauthenticated")
		e.refresh(c.login.RefreshToken).problem(http.StatusUnauthorized, "unauthenticated")
	}
	page.post("/voucher-order/seckill/"+v.ID, nil).loggedOut()
	other.post(v.orders(), nil).want(http.StatusCreated)
}

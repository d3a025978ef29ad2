package testenv

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLeaksAreFound(t *testing.T) {
	t.Parallel()
	const known = "a-secret-for-tests-only-0123456789"
	for planted, want := range map[string]string{
		`level=INFO msg=x token=eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJzZWNraWxsIn0.c2lnbmF0dXJl`:             "access token",
		`level=INFO msg=x err="00112233445566778899aabbccddeeff.3.AbCdEfGhIjKlMnOpQrStUvWx"`:           "refresh token",
		`level=INFO msg=x token=00112233445566778899aabbccddeeff.AbCdEfGhIjKlMnOpQrStUvWx`:             "refresh token",
		`{"msg":"x","redeem_code":"0BHT-K000-0001-AAAA-BBBB-CCCC"}`:                                    "redeem code",
		`level=INFO msg=x pass=QwAAAAEAAAGah3Yxk7p0s8NfXq2vLwR4tYuIoP`:                                 "entry pass",
		`level=WARN msg=x secret=` + known:                                                             "known secret",
		`level=INFO msg="login code" phone=13800000001`:                                                "phone",
		`seckill_logins_total{phone="13800000001"} 1`:                                                  "phone",
		`level=INFO msg=x err="no route to +447911123456"`:                                             "phone",
		`level=INFO msg=x code=123456`:                                                                 "login code",
		`{"msg":"x","code":"123456"}`:                                                                  "login code",
		`level=INFO msg=security event=login_failed network=127.0.0.0/24 phone=138****0001 status=401`: "",
		`level=WARN msg=x order_id=3368803458027454464 request_id=1F8QG5 took=13.800000001ms`:          "",
		`seckill_order_seconds_sum{lane="lock"} 13800000001.5`:                                         "",
	} {
		found := Leaks("level=INFO msg=before\n"+planted+"\nlevel=INFO msg=after\n", known)
		if want == "" {
			assert.Empty(t, found, planted)
			continue
		}
		if assert.Len(t, found, 1, planted) {
			assert.True(t, strings.HasPrefix(found[0], want), found)
		}
	}
}

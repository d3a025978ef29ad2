package webhook

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

var (
	secret  = []byte("a secret of provider and shop")
	secrets = domain.NewKeyring(secret)
	at      = time.Unix(1794398400, 0)
	body    = []byte(`{"provider_ref":"pay_1","order_id":"3368803458027454465","amount":8000,"status":"succeeded","timestamp":"2026-11-11T12:00:00Z"}`)
)

// byOpenSSL is the result of another implementation:
//
//	printf '%s.%s' 1794398400 "$body" | openssl dgst -sha256 -hmac 'a secret of provider and shop'
const byOpenSSL = "8365c5c01f1adca899d70b4291c6a8f84ee38a746f6e25ba5a459bf1c3bd52a7"

func TestSignature(t *testing.T) {
	good := "t=1794398400,v1=" + byOpenSSL
	require.Equal(t, good, Sign(secret, body, at))
	wrong := "v1=" + strings.Repeat("0", 64)
	for _, signature := range []string{
		good, "v1=" + byOpenSSL + ",t=1794398400", // any order
		" t=1794398400 , v1=" + byOpenSSL, strings.Replace(good, byOpenSSL, strings.ToUpper(byOpenSSL), 1),
		"t=1794398400," + wrong + ",v1=" + byOpenSSL, good + "," + wrong, // while the secret is changed
		good + ",v0=old,x", // unknown parts are ignored
	} {
		require.NoError(t, Verify(secrets, body, signature, at), signature)
	}
	for _, signature := range []string{
		"", ",", "t=,v1=", "t=1794398400", "v1=" + byOpenSSL, "t=1794398400," + wrong, "t=1794398400,v1=", "t=1794398400,v1=zz",
		"t=1794398400,v0=" + byOpenSSL, "t=1794398401,v1=" + byOpenSSL, "t=+1794398400,v1=" + byOpenSSL,
		"t=1794398400,v1=" + byOpenSSL[:62], "t=1794398400,v1=" + byOpenSSL + "00", "T=1794398400,V1=" + byOpenSSL,
		"t=99999999999999999999,v1=" + byOpenSSL, "t=9223372036854775807,v1=" + byOpenSSL, "t=-9223372036854775808,v1=" + byOpenSSL,
		"t=1794398400;v1=" + byOpenSSL, good + ",t=1794398401",
	} {
		require.ErrorIs(t, Verify(secrets, body, signature, at), domain.ErrUnauthenticated, signature)
	}
	require.ErrorIs(t, Verify(domain.NewKeyring([]byte("another secret")), body, good, at), domain.ErrUnauthenticated)
	require.ErrorIs(t, Verify(secrets, append(body, ' '), good, at), domain.ErrUnauthenticated)
	require.NoError(t, Verify(domain.NewKeyring([]byte("a newer secret"), secret), body, good, at), "signed before the change of the secret")
}

// A captured notice must not be accepted after maxAge.
func TestSignatureAge(t *testing.T) {
	good := Sign(secret, body, at)
	for off, ok := range map[time.Duration]bool{
		0: true, maxAge: true, -maxAge: true, maxAge + 1: false, -maxAge - 1: false, 24 * time.Hour: false, -100 * 365 * 24 * time.Hour: false,
	} {
		err := Verify(secrets, body, good, at.Add(off))
		if ok {
			require.NoError(t, err, off)
		} else {
			require.ErrorIs(t, err, domain.ErrUnauthenticated, off)
		}
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("t=1794398400,v1=" + byOpenSSL)
	f.Add("t=,v1=,,=")
	f.Fuzz(func(t *testing.T, signature string) {
		if Verify(secrets, body, signature, at) == nil && !strings.Contains(strings.ToLower(signature), byOpenSSL) {
			t.Errorf("accepted a wrong signature: %q", signature)
		}
	})
}

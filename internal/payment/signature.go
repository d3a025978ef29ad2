package payment

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"seckill/internal/service"
)

// maxAge is how old or how far ahead a signature may be: who overhears a notice cannot use it later. Within that time
// the reference of the payment makes a repeated notice harmless.
const maxAge = 5 * time.Minute

// sign makes the signature of a body, as the header X-Seckill-Signature has it: the time and an HMAC over both. The
// form is that of Stripe's webhooks (https://docs.stripe.com/webhooks#verify-manually).
func sign(secret, body []byte, at time.Time) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	return "t=" + stamp + ",v1=" + hex.EncodeToString(tag(secret, stamp, body))
}

func tag(secret []byte, stamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(stamp))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return mac.Sum(nil)
}

// verify checks a signature that is at most maxAge old. Of several v1 one must be right: that is how a secret is
// changed. Error: service.ErrUnauthenticated.
func verify(secret, body []byte, signature string, now time.Time) error {
	var stamp string
	var tags []string
	for part := range strings.SplitSeq(signature, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			stamp = value
		case "v1":
			tags = append(tags, value)
		}
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: the signature has no time", service.ErrUnauthenticated)
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > maxAge || age < -maxAge {
		return fmt.Errorf("%w: the signature is %s old", service.ErrUnauthenticated, age)
	}
	want := tag(secret, stamp, body)
	for _, t := range tags {
		if got, err := hex.DecodeString(t); err == nil && hmac.Equal(got, want) {
			return nil
		}
	}
	return fmt.Errorf("%w: the signature is wrong", service.ErrUnauthenticated)
}

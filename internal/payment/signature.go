package payment

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"seckill/internal/domain"
)

// maxAge is how old or how far in the future a signature may be, so that a captured notice cannot be replayed later.
// Within that time a repeated notice has no effect, because its payment reference is known.
const maxAge = 5 * time.Minute

// sign returns the signature of a body for the header X-Seckill-Signature: a time, and an HMAC over the time and the
// body. The format is that of Stripe's webhooks (https://docs.stripe.com/webhooks#verify-manually).
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

// verify checks a signature, which may be at most maxAge old. If it has several v1 values, one must be right, which
// allows the secret to be changed. Error: domain.ErrUnauthenticated.
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
		return fmt.Errorf("%w: the signature has no time", domain.ErrUnauthenticated)
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > maxAge || age < -maxAge {
		return fmt.Errorf("%w: the signature is %s old", domain.ErrUnauthenticated, age)
	}
	want := tag(secret, stamp, body)
	for _, t := range tags {
		if got, err := hex.DecodeString(t); err == nil && hmac.Equal(got, want) {
			return nil
		}
	}
	return fmt.Errorf("%w: the signature is wrong", domain.ErrUnauthenticated)
}

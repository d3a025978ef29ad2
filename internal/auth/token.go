package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/maypok86/otter/v2"

	"seckill/internal/domain"
)

const (
	// AccessTTL is the lifetime of an access token. It is short, so that an ended session leaves no long-lived token.
	AccessTTL = 15 * time.Minute
	// SeedTTL is the lifetime of the access tokens that `seckill seed` writes for load tests. No token lives longer.
	SeedTTL = 24 * time.Hour
	// MinSecret is the minimum length of the signing secret in bytes: the output size of SHA-256 (RFC 7518, 3.2).
	MinSecret = 32

	tokenParty = "seckill" // iss and aud
	// maxSkew is how far the clock of the server that signed a token may be ahead.
	maxSkew = time.Minute
)

// Identity is the user and the session of a verified token.
type Identity struct {
	UserID    int64
	SessionID string
	Role      domain.Role
	// SecondFactor is whether the session was opened with a second factor.
	SecondFactor bool
}

// Tokens signs and verifies access tokens (JWT, HS256), refresh tokens and the tokens of idle-timeout sessions. It is
// safe for concurrent use.
type Tokens struct {
	accessKey  []byte
	refreshKey []byte
	idleKey    []byte
	codeKey    []byte
	parser     *jwt.Parser
	now        func() time.Time
	verified   *otter.Cache[string, verified]
}

// maxVerified bounds the cache of verified access tokens, at about 500 bytes each.
const maxVerified = 100_000

// verified is the content of a valid token and immutable. Its key in the cache is the whole token with the signature.
type verified struct {
	identity Identity
	expires  time.Time
}

// NewTokens returns Tokens that sign with keys derived from secret. It returns an error if the secret is shorter than
// MinSecret bytes.
func NewTokens(secret []byte, now func() time.Time) (*Tokens, error) {
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("the signing secret has %d bytes but needs at least %d", len(secret), MinSecret)
	}
	return &Tokens{
		accessKey:  secret,
		refreshKey: mac(secret, "seckill/refresh"),
		idleKey:    mac(secret, "seckill/sliding"),
		codeKey:    mac(secret, "seckill/login-code"),
		now:        now,
		verified:   otter.Must(&otter.Options[string, verified]{MaximumSize: maxVerified}),
		parser: jwt.NewParser(
			jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
			jwt.WithStrictDecoding(), jwt.WithExpirationRequired(), jwt.WithIssuer(tokenParty), jwt.WithAudience(tokenParty),
			jwt.WithTimeFunc(now),
		),
	}, nil
}

// claims is the payload of an access token.
type claims struct {
	jwt.RegisteredClaims
	SessionID string      `json:"sid"`
	Role      domain.Role `json:"role"`
	Methods   []string    `json:"amr"`
}

// methodTOTP is the value of amr for a one-time password (RFC 8176).
const methodTOTP = "otp"

// plausible reports whether the token was issued before now and for no longer than its role allows. Load tests have
// tokens of buyers that live for SeedTTL.
func (c *claims) plausible(now time.Time) bool {
	issued, longest := now, AccessTTL
	if c.IssuedAt != nil {
		issued = c.IssuedAt.Time
	}
	if c.Role == domain.RoleBuyer {
		longest = SeedTTL
	}
	return !issued.After(now.Add(maxSkew)) && c.ExpiresAt.Sub(issued) <= longest
}

// Access returns a signed access token with the lifetime ttl: at most AccessTTL, for load tests SeedTTL.
func (t *Tokens) Access(id Identity, ttl time.Duration) (string, error) {
	now := t.now()
	// The claims type would encode the single audience as a list.
	c := jwt.MapClaims{
		"iss": tokenParty, "aud": tokenParty, "sub": strconv.FormatInt(id.UserID, 10),
		"sid": id.SessionID, "role": id.Role, "iat": now.Unix(), "exp": now.Add(ttl).Unix(),
	}
	if id.SecondFactor {
		c["amr"] = []string{methodTOTP}
	}
	return jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(t.accessKey)
}

// Verify checks the signature, the expiry, the issuer and the audience of an access token, but not whether its session
// has ended. Only valid tokens are cached, so forged tokens use no memory. Errors: ErrTokenExpired, ErrUnauthenticated.
func (t *Tokens) Verify(token string) (Identity, error) {
	v, err := t.verify(token)
	return v.identity, err
}

func (t *Tokens) verify(token string) (verified, error) {
	v, ok := t.verified.GetIfPresent(token)
	if !ok {
		var err error
		if v, err = t.parse(token); err != nil {
			return verified{}, err
		}
		t.verified.Set(strings.Clone(token), v) // the caller's string may be part of a larger string
	}
	if !t.now().Before(v.expires) {
		t.verified.Invalidate(token)
		return verified{}, domain.ErrTokenExpired
	}
	return v, nil
}

// parse parses and verifies a token without the cache.
func (t *Tokens) parse(token string) (verified, error) {
	var c claims
	_, err := t.parser.ParseWithClaims(token, &c, func(token *jwt.Token) (any, error) {
		if _, ok := token.Header["crit"]; ok { // extensions that must be understood (RFC 7515, 4.1.11); there are none
			return nil, domain.ErrUnauthenticated
		}
		return t.accessKey, nil
	})
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return verified{}, domain.ErrTokenExpired
	case err != nil:
		return verified{}, domain.ErrUnauthenticated
	}
	id, err := strconv.ParseInt(c.Subject, 10, 64)
	if err != nil || id <= 0 || c.SessionID == "" || !c.plausible(t.now()) {
		return verified{}, domain.ErrUnauthenticated
	}
	identity := Identity{UserID: id, SessionID: c.SessionID, Role: c.Role, SecondFactor: slices.Contains(c.Methods, methodTOTP)}
	return verified{identity: identity, expires: c.ExpiresAt.Time}, nil
}

// refresh returns the refresh token of a session's generation: both in plain text, with a signature. Tokens of earlier
// generations remain verifiable, which distinguishes a stolen token from a forged one.
func (t *Tokens) refresh(sessionID string, generation int64) string {
	body := sessionID + "." + strconv.FormatInt(generation, 10)
	return body + "." + base64.RawURLEncoding.EncodeToString(mac(t.refreshKey, body))
}

// parseRefresh verifies the signature of a refresh token and parses it. Error: ErrUnauthenticated.
func (t *Tokens) parseRefresh(token string) (sessionID string, generation int64, err error) {
	i := strings.LastIndexByte(token, '.')
	if i < 0 {
		return "", 0, domain.ErrUnauthenticated
	}
	body := token[:i]
	sum, err := base64.RawURLEncoding.DecodeString(token[i+1:])
	if err != nil || !hmac.Equal(sum, mac(t.refreshKey, body)) {
		return "", 0, domain.ErrUnauthenticated
	}
	sessionID, gen, _ := strings.Cut(body, ".")
	if generation, err = strconv.ParseInt(gen, 10, 64); err != nil {
		return "", 0, domain.ErrUnauthenticated
	}
	return sessionID, generation, nil
}

// idleToken returns the token of an idle-timeout session.
func (t *Tokens) idleToken(sessionID string) string {
	return sessionID + "." + base64.RawURLEncoding.EncodeToString(mac(t.idleKey, sessionID))
}

// parseIdleToken verifies the token of an idle-timeout session and returns the session. Error: ErrUnauthenticated.
func (t *Tokens) parseIdleToken(token string) (sessionID string, err error) {
	sessionID, _, _ = strings.Cut(token, ".")
	if !hmac.Equal([]byte(token), []byte(t.idleToken(sessionID))) {
		return "", domain.ErrUnauthenticated
	}
	return strings.Clone(sessionID), nil // a substring would keep the whole request in memory
}

// codeHash returns the hash of a login code for the database. It is keyed, because six digits could be found from an
// unkeyed hash in a stolen table.
func (t *Tokens) codeHash(phone, code string) []byte { return mac(t.codeKey, phone+"/"+code) }

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text)) // never fails (hash.Hash)
	return h.Sum(nil)
}

// NewSessionID returns 128 random bits in hexadecimal.
func NewSessionID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

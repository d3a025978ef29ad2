package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"seckill/internal/service"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/maypok86/otter/v2"
)

const (
	// AccessTTL is how long an access token works: a session that ends must not leave a long-lived key behind.
	AccessTTL = 15 * time.Minute
	// SeedTTL is how long the tokens work that seed writes for load tests.
	SeedTTL = 24 * time.Hour
	// MinSecret is the least number of bytes of a signing secret: the output size of SHA-256 (RFC 7518, 3.2).
	MinSecret = 32

	tokenParty = "seckill" // iss and aud
)

// Identity is who a verified access token speaks for.
type Identity struct {
	UserID    int64
	SessionID string
	Role      service.Role
}

// Tokens signs and checks access tokens (JWT, HS256), refresh tokens and the tokens of sliding sessions. It is safe for concurrent use.
type Tokens struct {
	accessKey  []byte
	refreshKey []byte
	slidingKey []byte
	codeKey    []byte
	parser     *jwt.Parser
	now        func() time.Time
	verified   *otter.Cache[string, verified]
}

// maxVerified bounds the access tokens that need not be verified from scratch again. One takes about 500 bytes.
const maxVerified = 100_000

// verified is what a token that was found good says. It never changes; the key is the whole token, signature included.
type verified struct {
	identity Identity
	expires  time.Time
}

// NewTokens makes the signer. It refuses a secret shorter than MinSecret bytes.
func NewTokens(secret []byte, now func() time.Time) (*Tokens, error) {
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("the signing secret has %d bytes, it needs at least %d", len(secret), MinSecret)
	}
	return &Tokens{
		accessKey:  secret,
		refreshKey: mac(secret, "seckill/refresh"),
		slidingKey: mac(secret, "seckill/sliding"),
		codeKey:    mac(secret, "seckill/login-code"),
		now:        now,
		verified:   otter.Must(&otter.Options[string, verified]{MaximumSize: maxVerified}),
		parser: jwt.NewParser(
			jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
			jwt.WithExpirationRequired(), jwt.WithIssuer(tokenParty), jwt.WithAudience(tokenParty),
			jwt.WithTimeFunc(now),
		),
	}, nil
}

// claims is the body of an access token, as Verify reads it.
type claims struct {
	jwt.RegisteredClaims
	SessionID string       `json:"sid"`
	Role      service.Role `json:"role"`
}

// Access signs an access token that works for ttl.
func (t *Tokens) Access(id Identity, ttl time.Duration) (string, error) {
	now := t.now()
	// Not the claims type: jwt would write a single audience as a list.
	return jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": tokenParty, "aud": tokenParty, "sub": strconv.FormatInt(id.UserID, 10),
		"sid": id.SessionID, "role": id.Role, "iat": now.Unix(), "exp": now.Add(ttl).Unix(),
	}).SignedString(t.accessKey)
}

// Verify checks an access token's signature, times and parties. Whether its session still stands is not its
// business. What was found good is remembered until it expires; what was not is not, so nobody can fill the memory
// with made-up tokens. Errors: ErrTokenExpired, ErrUnauthenticated.
func (t *Tokens) Verify(token string) (Identity, error) {
	v, ok := t.verified.GetIfPresent(token)
	if !ok {
		var err error
		if v, err = t.parse(token); err != nil {
			return Identity{}, err
		}
		t.verified.Set(strings.Clone(token), v) // the caller's string may be a part of a larger one
	}
	if !t.now().Before(v.expires) {
		t.verified.Invalidate(token)
		return Identity{}, service.ErrTokenExpired
	}
	return v.identity, nil
}

// parse reads a token and checks everything about it.
func (t *Tokens) parse(token string) (verified, error) {
	var c claims
	_, err := t.parser.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return t.accessKey, nil })
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return verified{}, service.ErrTokenExpired
	case err != nil:
		return verified{}, service.ErrUnauthenticated
	}
	id, err := strconv.ParseInt(c.Subject, 10, 64)
	if err != nil || id <= 0 || c.SessionID == "" {
		return verified{}, service.ErrUnauthenticated
	}
	return verified{identity: Identity{UserID: id, SessionID: c.SessionID, Role: c.Role}, expires: c.ExpiresAt.Time}, nil
}

// refresh writes the refresh token of a session's generation: readable parts and a signature over them. Old
// generations stay recognisable, which is what tells a stolen token from a made-up one.
func (t *Tokens) refresh(sessionID string, generation int64) string {
	body := sessionID + "." + strconv.FormatInt(generation, 10)
	return body + "." + base64.RawURLEncoding.EncodeToString(mac(t.refreshKey, body))
}

// parseRefresh reads a refresh token that this server signed. Error: ErrUnauthenticated.
func (t *Tokens) parseRefresh(token string) (sessionID string, generation int64, err error) {
	i := strings.LastIndexByte(token, '.')
	if i < 0 {
		return "", 0, service.ErrUnauthenticated
	}
	body := token[:i]
	sum, err := base64.RawURLEncoding.DecodeString(token[i+1:])
	if err != nil || !hmac.Equal(sum, mac(t.refreshKey, body)) {
		return "", 0, service.ErrUnauthenticated
	}
	sessionID, gen, _ := strings.Cut(body, ".")
	if generation, err = strconv.ParseInt(gen, 10, 64); err != nil {
		return "", 0, service.ErrUnauthenticated
	}
	return sessionID, generation, nil
}

// sliding writes the token of a sliding session.
func (t *Tokens) sliding(sessionID string) string {
	return sessionID + "." + base64.RawURLEncoding.EncodeToString(mac(t.slidingKey, sessionID))
}

// parseSliding reads the token of a sliding session that this server signed. Error: ErrUnauthenticated.
func (t *Tokens) parseSliding(token string) (sessionID string, err error) {
	sessionID, _, _ = strings.Cut(token, ".")
	if !hmac.Equal([]byte(token), []byte(t.sliding(sessionID))) {
		return "", service.ErrUnauthenticated
	}
	return strings.Clone(sessionID), nil // not a part of the whole request, which it would keep in memory
}

// codeHash is what is stored of a login code: without the key, six digits would be guessed from a stolen table.
func (t *Tokens) codeHash(phone, code string) []byte { return mac(t.codeKey, phone+"/"+code) }

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text)) // never fails (hash.Hash)
	return h.Sum(nil)
}

// NewSessionID returns 128 random bits in hex.
func NewSessionID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

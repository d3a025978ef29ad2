package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"seckill/internal/domain"
	"seckill/internal/kit/cache"
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
	maxSkew = 15 * time.Minute
)

// Identity is the user and the session of a verified token.
type Identity struct {
	UserID    int64
	SessionID string
	Role      domain.Role
	// SecondFactor is whether the session was opened with a second factor.
	SecondFactor bool
}

// Tokens signs and verifies access tokens (JWT, HS256), refresh tokens and the single tokens of LoginPage. It is
// safe for concurrent use.
type Tokens struct {
	accessKeys  domain.Keyring
	refreshKeys domain.Keyring
	pageKeys    domain.Keyring
	codeKeys    domain.Keyring
	proofKeys   domain.Keyring
	askerKeys   domain.Keyring
	parser      *jwt.Parser
	// Marks access tokens as those of a demo, and accepts marked ones.
	demo     bool
	now      func() time.Time
	verified *cache.Cache[string, verified]
}

// maxVerified bounds the cache of verified access tokens, at about 500 bytes each.
const maxVerified = 100_000

// verified is the content of a valid token and immutable. Its key in the cache is the whole token with the signature.
type verified struct {
	identity Identity
	expires  time.Time
}

// CheckSecrets returns an error if there is no secret, or if one is shorter than MinSecret bytes.
func CheckSecrets(secrets domain.Keyring) error {
	if len(secrets) == 0 {
		return errors.New("there is no secret")
	}
	for _, k := range secrets {
		if len(k.Secret) < MinSecret {
			return fmt.Errorf("a secret has %d bytes; at least %d are required", len(k.Secret), MinSecret)
		}
	}
	return nil
}

// NewTokens returns Tokens that sign with the first secret and verify with all. Errors: those of CheckSecrets.
func NewTokens(secrets domain.Keyring, now func() time.Time) (*Tokens, error) {
	if err := CheckSecrets(secrets); err != nil {
		return nil, err
	}

	return &Tokens{
		accessKeys:  secrets,
		refreshKeys: derive(secrets, "seckill/refresh"),
		pageKeys:    derive(secrets, "seckill/sliding"),
		codeKeys:    derive(secrets, "seckill/login-code"),
		proofKeys:   derive(secrets, "seckill/known-device"),
		askerKeys:   derive(secrets, "seckill/asker"),
		now:         now,
		verified:    cache.New[string](cache.Options[verified]{MaxEntries: maxVerified}),
		parser: jwt.NewParser(
			jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
			jwt.WithStrictDecoding(), jwt.WithExpirationRequired(), jwt.WithIssuer(tokenParty), jwt.WithAudience(tokenParty),
			jwt.WithTimeFunc(now),
		),
	}, nil
}

// NewDemoTokens is NewTokens for demo mode, in which any client can log in as any user. Outside demo mode none of its
// tokens, login codes and device proofs is valid.
func NewDemoTokens(secrets domain.Keyring, now func() time.Time) (*Tokens, error) {
	t, err := NewTokens(secrets, now)
	if err != nil {
		return nil, err
	}
	t.demo = true
	for _, keys := range []*domain.Keyring{&t.refreshKeys, &t.pageKeys, &t.codeKeys, &t.proofKeys} {
		*keys = keys.Derive("demo sessions")
	}
	return t, nil
}

// derive returns the keys for one kind of token. Its labels are older than those of domain.Keyring.Derive.
func derive(secrets domain.Keyring, label string) domain.Keyring {
	keys := make([][]byte, len(secrets))
	for i, k := range secrets {
		keys[i] = mac(k.Secret, label)
	}
	return domain.NewKeyring(keys...)
}

type claims struct {
	jwt.RegisteredClaims
	SessionID string      `json:"sid"`
	Role      domain.Role `json:"role"`
	Methods   []string    `json:"amr"`
	Demo      bool        `json:"demo"`
}

// methodTOTP is the value of amr for a one-time password (RFC 8176).
const methodTOTP = "otp"

// plausible reports whether the token was issued for no longer than its role allows, and expires soon enough even if its
// time of issue is missing or in the future. Load tests have tokens of buyers that live for SeedTTL.
func (c *claims) plausible(now time.Time) bool {
	longest := AccessTTL
	if c.Role == domain.RoleBuyer {
		longest = SeedTTL
	}
	if c.IssuedAt != nil && c.ExpiresAt.Sub(c.IssuedAt.Time) > longest {
		return false
	}
	return !c.ExpiresAt.After(now.Add(longest + maxSkew))
}

// Access returns a signed access token with the lifetime ttl: at most AccessTTL, for load tests SeedTTL.
func (t *Tokens) Access(id Identity, ttl time.Duration) (string, error) {
	now := t.now()

	// The claims type would encode the single audience as a list.
	c := jwt.MapClaims{
		"iss":  tokenParty,
		"aud":  tokenParty,
		"sub":  strconv.FormatInt(id.UserID, 10),
		"sid":  id.SessionID,
		"role": id.Role,
		"iat":  now.Unix(),
		"exp":  now.Add(ttl).Unix(),
	}

	if id.SecondFactor {
		c["amr"] = []string{methodTOTP}
	}
	if t.demo {
		c["demo"] = true
	}

	token := jwt.NewWithClaims(jwt.SigningMethodHS256, c)
	token.Header["kid"] = keyID(t.accessKeys[0])
	return token.SignedString(t.accessKeys.Signer())
}

// Verify checks the signature, the expiry, the issuer and the audience of an access token, but not whether its session
// has ended. Only valid tokens are cached, so forged tokens use no memory. Errors: ErrTokenExpired, ErrUnauthenticated.
func (t *Tokens) Verify(token string) (Identity, error) {
	v, err := t.verify(token)
	return v.identity, err
}

func (t *Tokens) verify(token string) (verified, error) {
	v, ok := t.verified.Get(token)
	if !ok {
		var err error
		if v, err = t.parse(token); err != nil {
			return verified{}, err
		}
		// The caller's string may be part of a larger string.
		t.verified.Set(strings.Clone(token), v)
	}

	if !t.now().Before(v.expires) {
		t.verified.Delete(token)
		return verified{}, domain.ErrTokenExpired
	}

	return v, nil
}

func (t *Tokens) parse(token string) (verified, error) {
	var c claims
	_, err := t.parser.ParseWithClaims(token, &c, t.verificationKeys)
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return verified{}, domain.ErrTokenExpired
	case err != nil:
		return verified{}, domain.ErrUnauthenticated
	}

	id, err := strconv.ParseInt(c.Subject, 10, 64)
	if err != nil || id <= 0 || c.SessionID == "" || c.Demo && !t.demo || !c.plausible(t.now()) {
		return verified{}, domain.ErrUnauthenticated
	}

	identity := Identity{
		UserID:       id,
		SessionID:    c.SessionID,
		Role:         c.Role,
		SecondFactor: slices.Contains(c.Methods, methodTOTP),
	}

	return verified{identity: identity, expires: c.ExpiresAt.Time}, nil
}

func keyID(k domain.Key) string { return fmt.Sprintf("%08x", k.ID) }

// verificationKeys returns the keys that may have signed a token: the one that its kid names, or all for a token without
// kid, as servers before the key ids signed them.
func (t *Tokens) verificationKeys(token *jwt.Token) (any, error) {
	// Extensions that must be understood (RFC 7515, 4.1.11); there are none.
	if _, ok := token.Header["crit"]; ok {
		return nil, domain.ErrUnauthenticated
	}

	kid, named := token.Header["kid"]
	var set jwt.VerificationKeySet
	for _, k := range t.accessKeys {
		if !named || kid == keyID(k) {
			set.Keys = append(set.Keys, k.Secret)
		}
	}

	// An empty set is an error of the parser.
	return set, nil
}

func signed(key []byte, text string) string {
	return text + "." + base64.RawURLEncoding.EncodeToString(mac(key, text))
}

// signedText returns the text that one of the keys has signed. Error: ErrUnauthenticated.
func signedText(keys domain.Keyring, token string) (string, error) {
	text := token[:max(strings.LastIndexByte(token, '.'), 0)]
	if !keys.Any(func(key []byte) bool { return hmac.Equal([]byte(token), []byte(signed(key, text))) }) {
		return "", domain.ErrUnauthenticated
	}
	// A substring would keep the whole request in memory.
	return strings.Clone(text), nil
}

// refresh returns the refresh token of a session's generation: both in plain text, with a signature. Tokens of earlier
// generations remain verifiable, which distinguishes a stolen token from a forged one.
func (t *Tokens) refresh(sessionID string, generation int64) string {
	return signed(t.refreshKeys.Signer(), sessionID+"."+strconv.FormatInt(generation, 10))
}

func (t *Tokens) parseRefresh(token string) (string, int64, error) {
	text, err := signedText(t.refreshKeys, token)
	if err != nil {
		return "", 0, err
	}

	sessionID, gen, _ := strings.Cut(text, ".")
	generation, err := strconv.ParseInt(gen, 10, 64)
	if err != nil {
		return "", 0, domain.ErrUnauthenticated
	}

	return sessionID, generation, nil
}

func (t *Tokens) pageToken(sessionID string) string { return signed(t.pageKeys.Signer(), sessionID) }

func (t *Tokens) parsePageToken(token string) (string, error) { return signedText(t.pageKeys, token) }

// codeHash returns the hash of a login code for the database. It is keyed, because six digits could be found from an
// unkeyed hash in a stolen table.
func (t *Tokens) codeHash(loginID, code string) []byte {
	return mac(t.codeKeys.Signer(), loginID+"/"+code)
}

func (t *Tokens) isCode(hash []byte, loginID, code string) bool {
	return t.codeKeys.Any(func(key []byte) bool { return hmac.Equal(hash, mac(key, loginID+"/"+code)) })
}

func mac(key []byte, text string) []byte { return domain.MAC(key, []byte(text)) }

// NewSessionID returns 128 random bits in hexadecimal.
func NewSessionID() string {
	var b [16]byte
	// Never fails (crypto/rand).
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

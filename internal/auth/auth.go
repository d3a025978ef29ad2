// Package auth logs users in with a code sent to their phone.
//
// A login creates a session in the database. Most clients get a short-lived access token, which is verified without the
// database, and a refresh token, which is exchanged for new tokens. Clients that cannot exchange tokens get a single
// token of an idle-timeout session, which ends 30 minutes after its last use. Every instance polls the list of ended
// sessions (Revocations).
package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"

	"seckill/internal/domain"
)

// The rules for login codes.
const (
	codeTTL      = 2 * time.Minute
	codeTries    = 5 // guesses per code, even without Config.Limits
	codeCooldown = time.Minute
	codeWindow   = 24 * time.Hour
	codesPerDay  = 20 // per phone; bounds the cost and, with codeTries, an attacker to 100 guesses in a million
)

const (
	// sessionTTL is the lifetime of a session after its last refresh.
	sessionTTL = 30 * 24 * time.Hour
	// SessionMaxAge is the age at which a session ends even if it is refreshed. Its last access token may outlive it.
	SessionMaxAge = 90 * 24 * time.Hour
	// MaxSessions bounds the sessions of a user. A login beyond it ends the oldest one.
	MaxSessions = 50
)

// LoginCode is the last code sent to a phone. The zero value stands for a phone without a code.
type LoginCode struct {
	Phone       string
	Hash        []byte // empty after use
	Attempts    int
	SentAt      time.Time
	ExpiresAt   time.Time
	WindowStart time.Time // start of the period of SentCount
	SentCount   int
}

// Session is one login on one device.
type Session struct {
	ID         string
	UserID     int64
	Generation int64 // of the valid refresh token
	CreatedAt  time.Time
	ExpiresAt  time.Time
	DeviceHash string // of the browser that opened it; empty for other clients
}

// Rotation is the exchange of a refresh token for its successor.
type Rotation struct {
	SessionID  string
	Generation int64  // of the token to exchange
	DeviceHash string // empty without a device
	Now        time.Time
	Expires    time.Time // the new end of the session
	KeepUntil  time.Time // the KeepUntil of the Revocation, if the exchange revokes the session
	// Grace is the time after an exchange during which the exchanged token may be repeated. A repetition succeeds
	// without advancing the generation of the session.
	Grace time.Duration
}

// Store stores users, login codes and sessions. A method is one transaction. Errors are those of package service.
type Store interface {
	// ChangeLoginCode locks and reads the phone's login code, calls change, and stores the changed code. An error of
	// change is returned, and nothing is stored.
	ChangeLoginCode(ctx context.Context, phone string, change func(*LoginCode) error) error
	// OpenSession locks and reads the login code of newUser.Phone, calls check, and stores the code as check leaves it.
	// If the code is correct, it also finds or inserts the user with this phone, stores the session s for them, and
	// returns the user. Otherwise the error is ErrWrongCode. The oldest sessions beyond MaxSessions are revoked.
	OpenSession(ctx context.Context, newUser domain.User, s Session, check func(*LoginCode) (correct bool)) (domain.User, error)
	User(ctx context.Context, id int64) (domain.User, error)
	// DeletedUsers returns those ids that have a session but no user.
	DeletedUsers(ctx context.Context, ids []int64) ([]int64, error)
	// RotateSession advances a session from r.Generation to the next generation and returns its user. The error is
	// ErrUnauthenticated if the session does not exist, has expired, was revoked or has reached SessionMaxAge. If it has
	// another device or another generation, the error is the same and the session is revoked, unless r.Grace allows a
	// repetition. A session from a version without devices is bound to that of r, if r has one.
	RotateSession(ctx context.Context, r Rotation) (domain.User, error)
	// SlideSession extends a session to expires, but not beyond IdleSessionMaxAge, and returns its user. It never shortens
	// a session. The error is ErrUnauthenticated if the session does not exist, was revoked, or does not last beyond after.
	SlideSession(ctx context.Context, id string, after, expires time.Time) (domain.User, error)
	// RevokeSession ends a session. Ending it again is no error.
	RevokeSession(ctx context.Context, id string, now, keepUntil time.Time) error
	// RevokeSessions ends all sessions of a user and returns their ids.
	RevokeSessions(ctx context.Context, userID int64, now, keepUntil time.Time) ([]string, error)
}

// CodeSender delivers login codes, for example by SMS.
type CodeSender interface {
	// SendCode delivers a code, which is valid until expires. After an error the code is void.
	SendCode(ctx context.Context, phone, code string, expires time.Time) error
}

// PhoneNumbers parses the phone numbers to which codes may be sent.
type PhoneNumbers interface {
	// Parse returns the canonical form of a mobile number, and its ISO country. Error: *domain.InvalidError.
	Parse(text string) (phone, country string, err error)
}

// Config configures a Service.
type Config struct {
	Store       Store
	Phones      PhoneNumbers
	Tokens      *Tokens
	Revoked     *Revocations
	Sender      CodeSender
	AdminPhones []string // users with these phones are admins, even if the database has another role
	Limits      bool     // enforce the cooldown and the daily number of codes; guesses are always limited
	Now         func() time.Time
}

// Service logs users in and out. It is safe for concurrent use.
type Service struct {
	cfg          Config
	idleSessions *otter.Cache[string, *idleSession] // by token
	roles        roleCache
}

// New returns a Service.
func New(cfg Config) *Service { return &Service{cfg: cfg, idleSessions: newIdleSessionCache()} }

// Login is the result of a login or a refresh.
type Login struct {
	AccessToken  string
	ExpiresIn    time.Duration
	RefreshToken string
	User         domain.User
}

// SendCode sends a new login code, which replaces an older one. It returns the code for use in demo mode only.
// Errors: *InvalidError, *RateLimitedError, ErrUnavailable.
func (a *Service) SendCode(ctx context.Context, phone string) (string, error) {
	phone, _, err := a.cfg.Phones.Parse(phone)
	if err != nil {
		return "", err
	}
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		return "", fmt.Errorf("generate login code: %w", err)
	}
	code := fmt.Sprintf("%06d", n)
	now := domain.Moment(a.cfg.Now())
	err = a.cfg.Store.ChangeLoginCode(ctx, phone, func(lc *LoginCode) error {
		return a.replaceCode(lc, a.cfg.Tokens.codeHash(phone, code), now)
	})
	if err != nil {
		return "", err
	}
	if err := a.cfg.Sender.SendCode(ctx, phone, code, now.Add(codeTTL)); err != nil {
		return "", errors.Join(fmt.Errorf("%w: send login code: %w", domain.ErrUnavailable, err), a.endCooldown(ctx, phone))
	}
	return code, nil
}

// endCooldown invalidates a code that could not be sent and ends its cooldown, so that a retry may follow at once.
func (a *Service) endCooldown(ctx context.Context, phone string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return a.cfg.Store.ChangeLoginCode(ctx, phone, func(lc *LoginCode) error {
		lc.Hash, lc.SentAt = nil, lc.SentAt.Add(-codeCooldown)
		return nil
	})
}

// replaceCode puts a new code into lc. Error: *RateLimitedError.
func (a *Service) replaceCode(lc *LoginCode, hash []byte, now time.Time) error {
	if lc.WindowStart.IsZero() || !now.Before(lc.WindowStart.Add(codeWindow)) {
		lc.WindowStart, lc.SentCount = now, 0
	}
	if a.cfg.Limits {
		if wait := lc.SentAt.Add(codeCooldown).Sub(now); wait > 0 {
			return &domain.RateLimitedError{RetryAfter: wait}
		}
		if lc.SentCount >= codesPerDay {
			return &domain.RateLimitedError{RetryAfter: lc.WindowStart.Add(codeWindow).Sub(now)}
		}
	}
	lc.Hash, lc.Attempts, lc.SentAt, lc.ExpiresAt = hash, 0, now, now.Add(codeTTL)
	lc.SentCount++
	return nil
}

// Login exchanges a login code for a session. The first login of a phone creates its user. The session is bound to the
// browser with the id device; device is empty for clients that keep the refresh token themselves.
// Errors: *InvalidError, ErrWrongCode, ErrUnavailable.
func (a *Service) Login(ctx context.Context, phone, code, device string) (Login, error) {
	u, s, err := a.openSession(ctx, phone, code, deviceHash(device), sessionTTL)
	if err != nil {
		return Login{}, err
	}
	return a.login(u, s.ID, s.Generation)
}

// openSession exchanges a login code for a session with the lifetime ttl. device is the hash of the browser's id.
func (a *Service) openSession(ctx context.Context, phone, code, device string, ttl time.Duration) (domain.User, Session, error) {
	phone, _, err := a.cfg.Phones.Parse(phone)
	if err != nil {
		return domain.User{}, Session{}, err
	}
	now := domain.Moment(a.cfg.Now())
	s := Session{ID: NewSessionID(), Generation: 1, CreatedAt: now, ExpiresAt: now.Add(ttl), DeviceHash: device}
	newUser := domain.User{Phone: phone, NickName: "user_" + strings.ToLower(rand.Text()[:10]), Role: domain.RoleBuyer, CreatedAt: now}
	u, err := a.cfg.Store.OpenSession(ctx, newUser, s, func(lc *LoginCode) bool {
		return checkCode(lc, func(hash []byte) bool { return a.cfg.Tokens.isCode(hash, phone, code) }, now)
	})
	u.Role = a.role(u)
	return u, s, err
}

// checkCode reports whether the guess is correct by the hash of the code, and counts it. A correct guess uses up the code.
func checkCode(lc *LoginCode, correct func(hash []byte) bool, now time.Time) bool {
	if len(lc.Hash) == 0 || lc.Attempts >= codeTries || !now.Before(lc.ExpiresAt) {
		return false
	}
	lc.Attempts++
	if !correct(lc.Hash) {
		return false
	}
	lc.Hash = nil
	return true
}

// login signs the access token and the refresh token of a session's generation.
func (a *Service) login(u domain.User, sessionID string, generation int64) (Login, error) {
	u.Role = a.role(u)
	access, err := a.cfg.Tokens.Access(Identity{UserID: u.ID, SessionID: sessionID, Role: u.Role}, AccessTTL)
	if err != nil {
		return Login{}, fmt.Errorf("sign access token: %w", err)
	}
	_, _ = a.cfg.Tokens.verify(access) // caches it, so that Run covers the token before its first use
	return Login{
		AccessToken: access, ExpiresIn: AccessTTL,
		RefreshToken: a.cfg.Tokens.refresh(sessionID, generation), User: u,
	}, nil
}

// deviceHash returns the hash of a browser's id for the database. The hash needs no key, because the id is 128 random
// bits.
func deviceHash(device string) string {
	if device == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(device))
	return hex.EncodeToString(sum[:])
}

// role returns the user's role by configuration or, without one, by database.
func (a *Service) role(u domain.User) domain.Role {
	for _, p := range a.cfg.AdminPhones {
		if p == u.Phone {
			return domain.RoleAdmin
		}
	}
	return u.Role
}

// BrowserGrace is the time during which a browser may repeat the refresh token that it has just exchanged. A page that
// is reloaded twice sends its cookie before the first answer can replace it, two tabs may refresh at once, and a page
// retries for 13 s if it receives no answer.
const BrowserGrace = 30 * time.Second

// RefreshedSession returns the session id of a refresh token, even of one that was exchanged before. It verifies only
// the signature. Error: ErrUnauthenticated.
func (a *Service) RefreshedSession(token string) (string, error) {
	id, _, err := a.cfg.Tokens.parseRefresh(token)
	return id, err
}

// Refresh exchanges a refresh token for new tokens. device is the id of the browser; it is empty for clients that keep the
// token themselves, and for browsers without an id. A browser that repeats the exchange within grace receives the same
// refresh token again. Any other repetition, and an exchange by another browser, indicates theft: it revokes the session
// and its access tokens (RFC 9700, 4.14.2).
// Errors: ErrUnauthenticated, ErrUnavailable.
func (a *Service) Refresh(ctx context.Context, token, device string, grace time.Duration) (Login, error) {
	id, generation, err := a.cfg.Tokens.parseRefresh(token)
	if err != nil {
		return Login{}, err
	}
	now := domain.Moment(a.cfg.Now())
	u, err := a.cfg.Store.RotateSession(ctx, Rotation{
		SessionID: id, Generation: generation, DeviceHash: deviceHash(device), Now: now, Expires: now.Add(sessionTTL),
		KeepUntil: now.Add(SeedTTL), Grace: grace,
	})
	if errors.Is(err, domain.ErrUnauthenticated) {
		a.cfg.Revoked.Add(id, now.Add(SeedTTL))
	}
	if err != nil {
		return Login{}, err
	}
	return a.login(u, id, generation+1)
}

// Logout ends the session. It takes effect at once on this instance, and within two seconds on every other one.
// Error: ErrUnavailable.
func (a *Service) Logout(ctx context.Context, id Identity) error {
	now := domain.Moment(a.cfg.Now())
	if err := a.cfg.Store.RevokeSession(ctx, id.SessionID, now, now.Add(SeedTTL)); err != nil {
		return err
	}
	a.cfg.Revoked.Add(id.SessionID, now.Add(SeedTTL))
	return nil
}

// LogoutAll ends all sessions of the user. It takes effect like Logout. Error: ErrUnavailable.
func (a *Service) LogoutAll(ctx context.Context, id Identity) error {
	return a.endSessions(ctx, id.UserID, id.SessionID)
}

// endSessions ends the stored sessions of a user, and on this instance the sessions in known even if they are not stored.
func (a *Service) endSessions(ctx context.Context, userID int64, known ...string) error {
	now := domain.Moment(a.cfg.Now())
	stored, err := a.cfg.Store.RevokeSessions(ctx, userID, now, now.Add(SeedTTL))
	if err != nil {
		return err
	}
	for _, session := range slices.Concat(known, stored) {
		a.cfg.Revoked.Add(session, now.Add(SeedTTL))
	}
	return nil
}

// Authenticate verifies an access token and returns its identity. It uses neither database nor Redis.
// Errors: ErrTokenExpired, ErrUnauthenticated.
func (a *Service) Authenticate(token string) (Identity, error) {
	id, err := a.cfg.Tokens.Verify(token)
	if err != nil {
		return Identity{}, err
	}
	if a.cfg.Revoked.Has(id.SessionID) {
		return Identity{}, domain.ErrUnauthenticated
	}
	return id, nil
}

// Watch calls end when the token stops being valid: with true at its expiry, and with false when its session is revoked on
// any instance, on this one before Logout returns. end must not block, and may be called twice. The returned function ends
// the watch; end may still be running then. Watch starts no goroutine. Errors: ErrTokenExpired, ErrUnauthenticated.
func (a *Service) Watch(token string, end func(expired bool)) (stop func(), err error) {
	v, err := a.cfg.Tokens.verify(token)
	if err != nil {
		return nil, err
	}
	unwatch, err := a.cfg.Revoked.watch(v.identity.SessionID, func() { end(false) })
	if err != nil {
		return nil, err
	}
	timer := time.AfterFunc(v.expires.Sub(a.cfg.Now()), func() { end(true) })
	return func() { timer.Stop(); unwatch() }, nil
}

// CurrentRole returns the present role of a user, which can differ from that of the token for as long as the token is
// valid. It is read from the database at most once a second per session. A session whose user no longer exists is refused
// from then on. Errors: ErrUnauthenticated, ErrUnavailable.
func (a *Service) CurrentRole(ctx context.Context, id Identity) (domain.Role, error) {
	if role, ok := a.roles.get(id.SessionID, a.cfg.Now()); ok {
		return role, nil
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	asked := a.cfg.Now()
	u, err := a.Me(ctx, id)
	if errors.Is(err, domain.ErrUnauthenticated) {
		a.cfg.Revoked.Add(id.SessionID, asked.Add(SeedTTL))
	}
	if err != nil {
		return "", err
	}
	a.roles.set(id.SessionID, u.Role, asked)
	return u.Role, nil
}

// Me returns the user of an identity. Errors: ErrUnauthenticated (the user no longer exists), ErrUnavailable.
func (a *Service) Me(ctx context.Context, id Identity) (domain.User, error) {
	u, err := a.cfg.Store.User(ctx, id.UserID)
	if errors.Is(err, domain.ErrNotFound) {
		return domain.User{}, domain.ErrUnauthenticated
	}
	u.Role = a.role(u)
	return u, err
}

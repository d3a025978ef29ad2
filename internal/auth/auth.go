// Package auth logs users in by a code sent to their phone, and issues, verifies and revokes tokens and sessions.
package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"seckill/internal/service"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"
)

// Rules of the login code.
const (
	codeTTL      = 2 * time.Minute
	codeTries    = 5 // guesses at one code, always
	codeCooldown = time.Minute
	codeWindow   = 24 * time.Hour
	codesPerDay  = 20 // to one phone: bounds the bill and, with codeTries, a guesser to 100 tries in a million
)

// sessionTTL is how long a session lives after its last refresh.
const sessionTTL = 30 * 24 * time.Hour

// LoginCode is the last code sent to a phone. The zero value is a phone that was never sent one.
type LoginCode struct {
	Phone       string
	Hash        []byte // empty when used
	Attempts    int
	SentAt      time.Time
	ExpiresAt   time.Time
	WindowStart time.Time // SentCount counts from here
	SentCount   int
}

// Session is one login on one device.
type Session struct {
	ID         string
	UserID     int64
	Generation int64 // of the refresh token that is good now
	CreatedAt  time.Time
	ExpiresAt  time.Time
}

// Rotation is the exchange of the refresh token of a session's generation.
type Rotation struct {
	SessionID  string
	Generation int64 // of the token that is given back
	Now        time.Time
	Expires    time.Time // when the session ends, if nobody refreshes it again
	KeepUntil  time.Time // how long it stays among the ended ones, if this ends it
	// Patience is for how long the token that was exchanged last is taken once more. It is then answered as it was the
	// first time: the session stays at the generation that it has.
	Patience time.Duration
}

// Store keeps users, codes and sessions. Its methods are transactions; errors are those of this package.
type Store interface {
	// ChangeLoginCode reads the phone's row for update, lets change work on it and writes it, unless change
	// returns an error: then nothing is written and the error comes back.
	ChangeLoginCode(ctx context.Context, phone string, change func(*LoginCode) error) error
	// OpenSession lets use work on the code that was sent to the newcomer's phone and writes it. If use says that
	// the code is right, it finds or makes the user with this phone and stores a session of theirs, all or
	// nothing; otherwise the error is ErrWrongCode.
	OpenSession(ctx context.Context, newcomer service.User, s Session, use func(*LoginCode) (right bool)) (service.User, error)
	User(ctx context.Context, id int64) (service.User, error)
	// RotateSession moves a session from a generation to the next. A session that is gone, over or revoked is
	// ErrUnauthenticated; so is one whose generation is past already, and that revokes it, unless r has patience with it.
	RotateSession(ctx context.Context, r Rotation) (service.User, error)
	// SlideSession moves the end of a session to expires, never back, and returns its user. A session that is gone,
	// revoked, or over at after is ErrUnauthenticated.
	SlideSession(ctx context.Context, id string, after, expires time.Time) (service.User, error)
	// RevokeSession ends a session; ending it twice is no error.
	RevokeSession(ctx context.Context, id string, now, keepUntil time.Time) error
}

// CodeSender brings a login code to its owner.
type CodeSender interface {
	SendCode(ctx context.Context, phone, code string) error
}

// Config configures a Service.
type Config struct {
	Store       Store
	Tokens      *Tokens
	Revoked     *Revocations
	Sender      CodeSender
	AdminPhones []string // users with these phones are admins, whatever the database says
	Limits      bool     // cooldown and daily number of codes; the guesses at a code are always limited
	Now         func() time.Time
}

// Service logs users in and out. It is safe for concurrent use.
type Service struct {
	cfg     Config
	sliding *otter.Cache[string, *slidingSession] // by token
}

// New returns a Service.
func New(cfg Config) *Service { return &Service{cfg: cfg, sliding: newSlidingCache()} }

// Login is what a client gets when it logs in or refreshes.
type Login struct {
	AccessToken  string
	ExpiresIn    time.Duration
	RefreshToken string
	User         service.User
}

// SendCode makes a login code, stores it in place of an older one, and sends it. It returns the code for the
// demo mode only. Errors: *InvalidError, *RateLimitedError, ErrUnavailable.
func (a *Service) SendCode(ctx context.Context, phone string) (string, error) {
	phone, err := service.ParsePhone(phone)
	if err != nil {
		return "", err
	}
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		return "", fmt.Errorf("random login code: %w", err)
	}
	code := fmt.Sprintf("%06d", n)
	now := service.Moment(a.cfg.Now())
	err = a.cfg.Store.ChangeLoginCode(ctx, phone, func(lc *LoginCode) error {
		return a.renew(lc, a.cfg.Tokens.codeHash(phone, code), now)
	})
	if err != nil {
		return "", err
	}
	if err := a.cfg.Sender.SendCode(ctx, phone, code); err != nil {
		return "", errors.Join(fmt.Errorf("%w: send login code: %w", service.ErrUnavailable, err), a.takeBack(ctx, phone))
	}
	return code, nil
}

// takeBack ends the cooldown for a code that was not sent, so that the phone may ask again at once.
func (a *Service) takeBack(ctx context.Context, phone string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return a.cfg.Store.ChangeLoginCode(ctx, phone, func(lc *LoginCode) error {
		lc.Hash, lc.SentAt = nil, lc.SentAt.Add(-codeCooldown)
		return nil
	})
}

// renew puts a new code into lc if the phone may have one now.
func (a *Service) renew(lc *LoginCode, hash []byte, now time.Time) error {
	if lc.WindowStart.IsZero() || !now.Before(lc.WindowStart.Add(codeWindow)) {
		lc.WindowStart, lc.SentCount = now, 0
	}
	if a.cfg.Limits {
		if wait := lc.SentAt.Add(codeCooldown).Sub(now); wait > 0 {
			return &service.RateLimitedError{RetryAfter: wait}
		}
		if lc.SentCount >= codesPerDay {
			return &service.RateLimitedError{RetryAfter: lc.WindowStart.Add(codeWindow).Sub(now)}
		}
	}
	lc.Hash, lc.Attempts, lc.SentAt, lc.ExpiresAt = hash, 0, now, now.Add(codeTTL)
	lc.SentCount++
	return nil
}

// Login exchanges a code for a session; the first login of a phone makes its user.
// Errors: *InvalidError, ErrWrongCode, ErrUnavailable.
func (a *Service) Login(ctx context.Context, phone, code string) (Login, error) {
	u, s, err := a.openSession(ctx, phone, code, sessionTTL)
	if err != nil {
		return Login{}, err
	}
	return a.login(u, s.ID, s.Generation)
}

// openSession exchanges a code for a session that lives for ttl.
func (a *Service) openSession(ctx context.Context, phone, code string, ttl time.Duration) (service.User, Session, error) {
	phone, err := service.ParsePhone(phone)
	if err != nil {
		return service.User{}, Session{}, err
	}
	now := service.Moment(a.cfg.Now())
	s := Session{ID: NewSessionID(), Generation: 1, CreatedAt: now, ExpiresAt: now.Add(ttl)}
	newcomer := service.User{Phone: phone, NickName: "user_" + strings.ToLower(rand.Text()[:10]), Role: service.RoleBuyer, CreatedAt: now}
	u, err := a.cfg.Store.OpenSession(ctx, newcomer, s, func(lc *LoginCode) bool {
		return a.useCode(lc, a.cfg.Tokens.codeHash(phone, code), now)
	})
	u.Role = a.role(u)
	return u, s, err
}

// useCode says whether hash is that of the code, and counts the guess. The right guess uses the code up.
func (a *Service) useCode(lc *LoginCode, hash []byte, now time.Time) bool {
	if len(lc.Hash) == 0 || lc.Attempts >= codeTries || !now.Before(lc.ExpiresAt) {
		return false
	}
	lc.Attempts++
	if !hmac.Equal(lc.Hash, hash) {
		return false
	}
	lc.Hash = nil
	return true
}

// login signs the tokens of a session's generation.
func (a *Service) login(u service.User, sessionID string, generation int64) (Login, error) {
	u.Role = a.role(u)
	access, err := a.cfg.Tokens.Access(Identity{UserID: u.ID, SessionID: sessionID, Role: u.Role}, AccessTTL)
	if err != nil {
		return Login{}, fmt.Errorf("sign access token: %w", err)
	}
	return Login{
		AccessToken: access, ExpiresIn: AccessTTL,
		RefreshToken: a.cfg.Tokens.refresh(sessionID, generation), User: u,
	}, nil
}

// role is the user's role by database or configuration.
func (a *Service) role(u service.User) service.Role {
	for _, p := range a.cfg.AdminPhones {
		if p == u.Phone {
			return service.RoleAdmin
		}
	}
	return u.Role
}

// BrowserPatience is for how long a browser may send the refresh token that it has just exchanged: a page that is
// reloaded twice has sent its cookie before the first answer could replace it, and two tabs wake up together. It is far
// longer than a page waits for an answer, which is 10 s: one whose answer was lost tries again only after that, with
// pauses, and must not lose its session for it.
const BrowserPatience = 2 * time.Minute

// RefreshedSession names the session of a refresh token that this server signed, whether or not it is used up. It asks
// nobody. Error: ErrUnauthenticated.
func (a *Service) RefreshedSession(token string) (string, error) {
	id, _, err := a.cfg.Tokens.parseRefresh(token)
	return id, err
}

// Refresh exchanges a refresh token for new tokens. A token that was exchanged before, longer ago than patience, is
// stolen or copied: it revokes the session, access tokens included (RFC 9700, 4.14.2). Within patience the answer is
// the same successor again, so that of two holders one is found out at the next exchange.
// Errors: ErrUnauthenticated, ErrUnavailable.
func (a *Service) Refresh(ctx context.Context, token string, patience time.Duration) (Login, error) {
	id, generation, err := a.cfg.Tokens.parseRefresh(token)
	if err != nil {
		return Login{}, err
	}
	now := service.Moment(a.cfg.Now())
	u, err := a.cfg.Store.RotateSession(ctx, Rotation{
		SessionID: id, Generation: generation, Now: now, Expires: now.Add(sessionTTL), KeepUntil: now.Add(SeedTTL), Patience: patience,
	})
	if errors.Is(err, service.ErrUnauthenticated) {
		a.cfg.Revoked.Add(id, now.Add(SeedTTL))
	}
	if err != nil {
		return Login{}, err
	}
	return a.login(u, id, generation+1)
}

// Logout ends the session: here at once, on every other instance within two seconds. Error: ErrUnavailable.
func (a *Service) Logout(ctx context.Context, id Identity) error {
	now := service.Moment(a.cfg.Now())
	if err := a.cfg.Store.RevokeSession(ctx, id.SessionID, now, now.Add(SeedTTL)); err != nil {
		return err
	}
	a.cfg.Revoked.Add(id.SessionID, now.Add(SeedTTL))
	return nil
}

// Authenticate says who an access token speaks for. It asks neither database nor Redis.
// Errors: ErrTokenExpired, ErrUnauthenticated.
func (a *Service) Authenticate(token string) (Identity, error) {
	id, err := a.cfg.Tokens.Verify(token)
	if err != nil {
		return Identity{}, err
	}
	if a.cfg.Revoked.Has(id.SessionID) {
		return Identity{}, service.ErrUnauthenticated
	}
	return id, nil
}

// Me returns the user behind an identity; one who is gone is ErrUnauthenticated.
func (a *Service) Me(ctx context.Context, id Identity) (service.User, error) {
	u, err := a.cfg.Store.User(ctx, id.UserID)
	if errors.Is(err, service.ErrNotFound) {
		return service.User{}, service.ErrUnauthenticated
	}
	u.Role = a.role(u)
	return u, err
}

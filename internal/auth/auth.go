// Package auth logs users in with a code sent to their phone.
//
// A login creates a session in the database. Most clients get a short-lived access token, which is verified without the
// database, and a refresh token, which is exchanged for new tokens. Clients that cannot exchange tokens get a single
// token for seven days. Every instance polls the list of ended sessions (Revocations).
//
// Roles above viewer take effect only in sessions that were opened with a second factor (SecondFactors).
package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/cache"
	"seckill/internal/kit/ratelimit"
)

const (
	// sessionTTL is the lifetime of a session after its last refresh.
	sessionTTL = 30 * 24 * time.Hour
	// SessionMaxAge is the age at which a session ends even if it is refreshed. Its last access token may outlive it.
	SessionMaxAge = 90 * 24 * time.Hour
)

// Session is one login on one device.
type Session struct {
	ID     string
	UserID int64
	// The generation of the valid refresh token.
	Generation int64
	CreatedAt  time.Time
	ExpiresAt  time.Time
	// The hash of the browser that opened it; empty for other clients.
	DeviceHash string
	// Whether the login had a second factor.
	SecondFactor bool
}

// Rotation is the exchange of a refresh token for its successor.
type Rotation struct {
	SessionID string
	// The generation of the token to exchange.
	Generation int64
	// Empty without a device.
	DeviceHash string
	Now        time.Time
	// The new end of the session.
	Expires time.Time
	// Grace is the time after an exchange during which the exchanged token may be repeated. A repetition succeeds
	// without advancing the generation of the session.
	Grace time.Duration
}

// Store stores users, login requests and sessions. A method is one transaction. Errors are those of package domain.
type Store interface {
	AddLoginRequest(ctx context.Context, r LoginRequest) error
	// DeleteLoginRequest deletes a request whose code could not be sent. Deleting it again is no error.
	DeleteLoginRequest(ctx context.Context, id string) error
	// OpenSession locks and reads the login request to which g belongs, calls check, and stores the request as check
	// leaves it. If the code is correct, it also finds or inserts the user newUser with the phone g.Phone, calls confirm,
	// stores the session s for them, and returns the user. Otherwise, and if there is no such request, the error is
	// ErrWrongCode.
	//
	// confirm gets the user's second factor, or nil, and reports whether the login had it; then the factor is stored as
	// confirm leaves it. An error of confirm is returned with the user, and the code stays valid; only ErrWrongTOTP counts
	// as an attempt.
	OpenSession(
		ctx context.Context, g Guess, newUser domain.User, s Session, check func(*LoginRequest) (correct bool), confirm ConfirmFunc,
	) (domain.User, error)
	// User returns a user. Error: ErrNotFound, even for one that was erased.
	User(ctx context.Context, id int64) (domain.User, error)
	// UserByPhone returns the user with a phone. Error: ErrNotFound.
	UserByPhone(ctx context.Context, phone string) (domain.User, error)
	// RotateSession advances a session from r.Generation to the next generation. It returns the user, and whether the
	// session was opened with a second factor. The error is ErrUnauthenticated if the session does not exist, has
	// expired, was revoked or has reached SessionMaxAge. If it has another device or another generation, the error is
	// ErrTokenReused and the session is revoked, unless r.Grace allows a repetition. A session from a version without
	// devices is bound to that of r, and allows no repetition before.
	RotateSession(ctx context.Context, r Rotation) (u domain.User, secondFactor bool, err error)
	// SessionUser returns the user of a session that was not revoked, and when it ends, which may be in the past. Error:
	// ErrUnauthenticated.
	SessionUser(ctx context.Context, id string) (u domain.User, ends time.Time, err error)
	// RevokeSession ends a session. Ending it again is no error.
	RevokeSession(ctx context.Context, id string, now time.Time) error
	// RevokeSessions ends all sessions of a user and returns their ids.
	RevokeSessions(ctx context.Context, userID int64, now time.Time) ([]string, error)
	// EraseUser removes the person from an account and returns its sessions, which it ends. Erasing a user again is no
	// error.
	EraseUser(ctx context.Context, e Erasure) (sessions []string, err error)
	// IdleUsers reads some users with ids above after, and returns those without a session, without a login and an order
	// since the given time, and without an order that is unfinished. last is the largest id that was read, 0 at the end.
	IdleUsers(ctx context.Context, after int64, since time.Time) (idle []domain.User, last int64, err error)
}

// ConfirmFunc checks the second factor of a login. It may be called several times.
type ConfirmFunc func(u domain.User, f *SecondFactor) (confirmed bool, err error)

// Config configures a Service.
type Config struct {
	Store   Store
	Phones  *Phones
	Tokens  *Tokens
	Revoked *Revocations
	Sender  CodeSender
	// Users with these phones are admins, even if the database has another role.
	AdminPhones []string
	// By phone, in demo mode: roles that the database does not have.
	DemoRoles map[string]domain.Role
	// The quota of logins and sent codes, see quota.go; nil: unlimited, but guesses are always limited.
	Quota *ratelimit.Quota
	Now   func() time.Time

	// SecondFactors checks the second factors of the users whose roles need one. Nil: no role does, as in demo mode.
	SecondFactors *SecondFactors
	// Required with SecondFactors and by RetentionTasks.
	Log *slog.Logger
}

// Service logs users in and out. It is safe for concurrent use.
type Service struct {
	cfg Config
	// By token.
	pageSessions *cache.Cache[string, pageSession]
}

// New returns a Service.
func New(cfg Config) *Service {
	return &Service{
		cfg:          cfg,
		pageSessions: cache.New[string](cache.Options[pageSession]{MaxEntries: maxPageSessions}),
	}
}

// Login is the result of a login or a refresh.
type Login struct {
	AccessToken  string
	ExpiresIn    time.Duration
	RefreshToken string
	User         domain.User
	// For the device, see Asker; empty after a refresh without a valid one.
	Proof string
}

func (a *Service) login(u domain.User, sessionID string, generation int64, secondFactor bool) (Login, error) {
	u.Role = a.role(u, secondFactor)
	id := Identity{
		UserID:       u.ID,
		SessionID:    sessionID,
		Role:         u.Role,
		SecondFactor: secondFactor,
	}

	access, err := a.cfg.Tokens.Access(id, AccessTTL)
	if err != nil {
		return Login{}, fmt.Errorf("sign access token: %w", err)
	}

	return Login{
		AccessToken:  access,
		ExpiresIn:    AccessTTL,
		RefreshToken: a.cfg.Tokens.refresh(sessionID, generation),
		User:         u,
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

func (a *Service) role(u domain.User, secondFactor bool) domain.Role {
	role := a.configuredRole(u)
	if a.cfg.SecondFactors != nil && role.NeedsSecondFactor() && !secondFactor {
		return domain.RoleBuyer
	}
	return role
}

func (a *Service) configuredRole(u domain.User) domain.Role {
	if slices.Contains(a.cfg.AdminPhones, u.Phone) {
		return domain.RoleAdmin
	}
	if role, ok := a.cfg.DemoRoles[u.Phone]; ok && u.Role == domain.RoleBuyer {
		return role
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
// token themselves. A browser that repeats the exchange within grace receives the same
// refresh token again. Any other repetition, and an exchange by another browser, indicates theft: it revokes the session
// and its access tokens (RFC 9700, 4.14.2). A valid proof of the device is signed anew, with the newest secret.
// Errors: ErrUnauthenticated, ErrUnavailable.
func (a *Service) Refresh(ctx context.Context, token, device, proof string, grace time.Duration) (Login, error) {
	id, generation, err := a.cfg.Tokens.parseRefresh(token)
	if err != nil {
		return Login{}, err
	}

	now := domain.Moment(a.cfg.Now())
	u, secondFactor, err := a.cfg.Store.RotateSession(ctx, Rotation{
		SessionID:  id,
		Generation: generation,
		DeviceHash: deviceHash(device),
		Now:        now,
		Expires:    now.Add(sessionTTL),
		Grace:      grace,
	})
	if errors.Is(err, domain.ErrUnauthenticated) {
		a.cfg.Revoked.Add(now, id)
	}

	if err != nil {
		return Login{}, err
	}

	l, err := a.login(u, id, generation+1, secondFactor)
	if a.cfg.Tokens.provesDevice(proof, u) {
		l.Proof = a.proof(proof, u)
	}

	return l, err
}

// Logout ends the session. It takes effect at once on this instance, and within two seconds on every other one.
// Error: ErrUnavailable.
func (a *Service) Logout(ctx context.Context, id Identity) error {
	now := domain.Moment(a.cfg.Now())
	if err := a.cfg.Store.RevokeSession(ctx, id.SessionID, now); err != nil {
		return err
	}
	a.cfg.Revoked.Add(now, id.SessionID)
	return nil
}

// LogoutAll ends all sessions of the user. It takes effect like Logout. Error: ErrUnavailable.
func (a *Service) LogoutAll(ctx context.Context, id Identity) error {
	now := domain.Moment(a.cfg.Now())
	stored, err := a.cfg.Store.RevokeSessions(ctx, id.UserID, now)
	if err != nil {
		return err
	}
	a.cfg.Revoked.Add(now, append(stored, id.SessionID)...)
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
func (a *Service) Watch(token string, end func(expired bool)) (func(), error) {
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
// valid. Only requests of staff read it. Errors: ErrUnauthenticated (the user no longer exists), ErrUnavailable.
func (a *Service) CurrentRole(ctx context.Context, id Identity) (domain.Role, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	u, err := a.Me(ctx, id)
	return u.Role, err
}

// Me returns the user of an identity. Errors: ErrUnauthenticated (the user no longer exists), ErrUnavailable.
func (a *Service) Me(ctx context.Context, id Identity) (domain.User, error) {
	u, err := a.cfg.Store.User(ctx, id.UserID)
	if errors.Is(err, domain.ErrNotFound) {
		return domain.User{}, domain.ErrUnauthenticated
	}
	u.Role = a.role(u, id.SecondFactor)
	return u, err
}

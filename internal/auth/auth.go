// Package auth logs users in with a code sent to their phone.
//
// A login creates a session in the database. Most clients get a short-lived access token, which is verified without the
// database, and a refresh token, which is exchanged for new tokens. Clients that cannot exchange tokens get a single
// token of an idle-timeout session, which ends 30 minutes after its last use. Every instance polls the list of ended
// sessions (Revocations).
package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"

	"seckill/internal/domain"
	"seckill/internal/ratelimit"
)

// sessionTTL is the lifetime of a session after its last refresh.
const sessionTTL = 30 * 24 * time.Hour

// Session is one login on one device.
type Session struct {
	ID         string
	UserID     int64
	Generation int64 // of the valid refresh token
	CreatedAt  time.Time
	ExpiresAt  time.Time
}

// Rotation is the exchange of a refresh token for its successor.
type Rotation struct {
	SessionID  string
	Generation int64 // of the token to exchange
	Now        time.Time
	Expires    time.Time // the new end of the session
	KeepUntil  time.Time // the KeepUntil of the Revocation, if the exchange revokes the session
	// Grace is the time after an exchange during which the exchanged token may be repeated. A repetition succeeds
	// without advancing the generation of the session.
	Grace time.Duration
}

// Store stores users, login requests and sessions. A method is one transaction. Errors are those of package service.
type Store interface {
	AddLoginRequest(ctx context.Context, r LoginRequest) error
	// DeleteLoginRequest deletes a request whose code could not be sent. Deleting it again is no error.
	DeleteLoginRequest(ctx context.Context, id string) error
	// OpenSession locks and reads the login request to which g belongs, calls check, and stores the request as check
	// leaves it. If the code is correct, it also finds or inserts the user newUser with the phone g.Phone, stores the
	// session s for them, and returns the user. Otherwise, and if there is no such request, the error is ErrWrongCode.
	OpenSession(ctx context.Context, g Guess, newUser domain.User, s Session, check func(*LoginRequest) (correct bool)) (domain.User, error)
	User(ctx context.Context, id int64) (domain.User, error)
	// RotateSession advances a session from r.Generation to the next generation and returns its user. The error is
	// ErrUnauthenticated if the session does not exist, has expired or was revoked. If it has another generation, the
	// error is the same and the session is revoked, unless r.Grace allows a repetition.
	RotateSession(ctx context.Context, r Rotation) (domain.User, error)
	// SlideSession extends a session to expires and returns its user. It never shortens a session. The error is
	// ErrUnauthenticated if the session does not exist, was revoked, or does not last beyond after.
	SlideSession(ctx context.Context, id string, after, expires time.Time) (domain.User, error)
	// RevokeSession ends a session. Ending it again is no error.
	RevokeSession(ctx context.Context, id string, now, keepUntil time.Time) error
}

// Config configures a Service.
type Config struct {
	Store       Store
	Phones      PhoneNumbers
	Tokens      *Tokens
	Revoked     *Revocations
	Sender      CodeSender
	AdminPhones []string         // users with these phones are admins, even if the database has another role
	Quota       *ratelimit.Quota // of sent codes, see codeBuckets; nil: unlimited, but guesses are always limited
	Now         func() time.Time
}

// Service logs users in and out. It is safe for concurrent use.
type Service struct {
	cfg          Config
	idleSessions *otter.Cache[string, *idleSession] // by token
}

// New returns a Service.
func New(cfg Config) *Service { return &Service{cfg: cfg, idleSessions: newIdleSessionCache()} }

// Login is the result of a login or a refresh.
type Login struct {
	AccessToken  string
	ExpiresIn    time.Duration
	RefreshToken string
	User         domain.User
	Device       string // for the device that has logged in, see Asker; empty after a refresh
}

// login signs the access token and the refresh token of a session's generation.
func (a *Service) login(u domain.User, sessionID string, generation int64) (Login, error) {
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

// role returns the user's role by configuration or, without one, by database.
func (a *Service) role(u domain.User) domain.Role {
	for _, p := range a.cfg.AdminPhones {
		if p == u.Phone {
			return domain.RoleAdmin
		}
	}
	return u.Role
}

// BrowserGrace is the time during which a browser may repeat the refresh token that it has just exchanged. A page
// that is reloaded twice sends its cookie before the first answer can replace it, and two tabs may refresh at once. It
// is far longer than the 10 s after which a page gives up on an answer, because the page then retries with pauses and
// must not lose its session.
const BrowserGrace = 2 * time.Minute

// RefreshedSession returns the session id of a refresh token, even of one that was exchanged before. It verifies only
// the signature. Error: ErrUnauthenticated.
func (a *Service) RefreshedSession(token string) (string, error) {
	id, _, err := a.cfg.Tokens.parseRefresh(token)
	return id, err
}

// Refresh exchanges a refresh token for new tokens. Repeating the exchange within grace returns the same refresh token
// again, so a stolen copy is detected at the next exchange. A later repetition indicates theft: it revokes the session
// and its access tokens (RFC 9700, 4.14.2).
// Errors: ErrUnauthenticated, ErrUnavailable.
func (a *Service) Refresh(ctx context.Context, token string, grace time.Duration) (Login, error) {
	id, generation, err := a.cfg.Tokens.parseRefresh(token)
	if err != nil {
		return Login{}, err
	}
	now := domain.Moment(a.cfg.Now())
	u, err := a.cfg.Store.RotateSession(ctx, Rotation{
		SessionID: id, Generation: generation, Now: now, Expires: now.Add(sessionTTL), KeepUntil: now.Add(SeedTTL), Grace: grace,
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

// Me returns the user of an identity. Errors: ErrUnauthenticated (the user no longer exists), ErrUnavailable.
func (a *Service) Me(ctx context.Context, id Identity) (domain.User, error) {
	u, err := a.cfg.Store.User(ctx, id.UserID)
	if errors.Is(err, domain.ErrNotFound) {
		return domain.User{}, domain.ErrUnauthenticated
	}
	u.Role = a.role(u)
	return u, err
}

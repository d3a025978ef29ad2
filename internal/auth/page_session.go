package auth

import (
	"context"
	"errors"
	"strings"
	"time"

	"seckill/internal/domain"
)

const (
	// PageSessionTTL is the lifetime of the session of a client that uses one token and never exchanges it.
	PageSessionTTL = 7 * 24 * time.Hour
	// loadTimeout bounds a store call whose result decides whether the request is authenticated.
	loadTimeout = time.Second
	// maxPageSessions bounds the cached sessions of a process, at about 300 bytes each.
	maxPageSessions = 100_000
)

// pageSession is a session as the store had it. A process reads it again when an access token would have expired.
type pageSession struct {
	identity Identity
	// Zero if the store refused the session.
	ends   time.Time
	readAt time.Time
}

// LoginPage is Login for clients that use one token and never exchange it. The token is valid for AuthenticatePage only.
// proof is Login.Proof. Errors: *InvalidError, ErrWrongCode, ErrUnavailable.
func (a *Service) LoginPage(ctx context.Context, c Credentials) (token, proof string, err error) {
	u, s, err := a.openSession(ctx, c, PageSessionTTL, withoutSecondFactor)
	if err != nil {
		return "", "", err
	}
	return a.cfg.Tokens.pageToken(s.ID), a.proof(c.From.Proof, u), nil
}

// withoutSecondFactor is the ConfirmFunc of clients that cannot send a second factor. Roles that need one are not in
// effect in their sessions.
func withoutSecondFactor(domain.User, *SecondFactor) (bool, error) { return false, nil }

// AuthenticatePage verifies the token of LoginPage and returns the identity. It calls the store once per session and
// AccessTTL; concurrent calls for a token share that. Errors: ErrUnauthenticated, ErrUnavailable.
func (a *Service) AuthenticatePage(ctx context.Context, token string) (Identity, error) {
	now := a.cfg.Now()
	if s, cached := a.pageSessions.Get(token); cached && now.Sub(s.readAt) >= AccessTTL {
		a.pageSessions.Delete(token)
	}

	// The caller's string may be part of a larger string.
	s, err := a.pageSessions.Load(ctx, strings.Clone(token), func(ctx context.Context) (pageSession, error) {
		return a.readPageSession(ctx, token, now)
	})
	if err != nil {
		return Identity{}, err
	}

	if a.cfg.Revoked.Has(s.identity.SessionID) || !s.ends.After(now) {
		return Identity{}, domain.ErrUnauthenticated
	}

	return s.identity, nil
}

// readPageSession reads the session of a token. The cancellation of ctx does not end the store call.
func (a *Service) readPageSession(ctx context.Context, token string, now time.Time) (pageSession, error) {
	id, err := a.cfg.Tokens.parsePageToken(token)
	if err != nil {
		return pageSession{}, err
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	defer cancel()

	s := pageSession{identity: Identity{SessionID: id}, readAt: now}
	u, ends, err := a.cfg.Store.SessionUser(ctx, id)
	switch {
	case err == nil:
		s.identity.UserID = u.ID
		s.identity.Role = a.role(u, false)
		s.ends = ends
	case !errors.Is(err, domain.ErrUnauthenticated):
		// A refusal is cached, too.
		return pageSession{}, err
	}

	return s, nil
}

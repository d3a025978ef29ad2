package auth

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"seckill/internal/domain"
)

const (
	// SlidingTTL is the idle timeout: the lifetime of an idle-timeout session after its last use.
	SlidingTTL = 30 * time.Minute
	// IdleSessionMaxAge is the age at which an idle-timeout session ends even if it is used.
	IdleSessionMaxAge = 7 * 24 * time.Hour
	// extendEvery is the shortest interval at which a process extends a session in the store. Sessions are stored with
	// this much extra lifetime, so that uses within the interval are not lost.
	extendEvery = time.Minute
	// loadTimeout bounds a store call whose result decides whether the request is authenticated.
	loadTimeout = time.Second
	// extendTimeout bounds a store call of a request that is authenticated even if the store is unavailable.
	extendTimeout = 300 * time.Millisecond
	// maxIdleSessions bounds the cached sessions of a process, at about 300 bytes each. An evicted session is read from
	// the store at its next use.
	maxIdleSessions = 100_000
)

// idleSession is a cached idle-timeout session. Only its times change.
type idleSession struct {
	identity   Identity
	stored     time.Time    // the last success to extend the session in the store
	usedAt     atomic.Int64 // unix milliseconds
	extendedAt atomic.Int64 // unix milliseconds; the last attempt to extend the session in the store
	refusedAt  atomic.Int64 // unix milliseconds; the last refusal by the store, or 0
}

func newIdleSession(id Identity, now time.Time) *idleSession {
	s := &idleSession{identity: id, stored: now}
	s.usedAt.Store(now.UnixMilli())
	s.extendedAt.Store(now.UnixMilli())
	return s
}

// idle returns the time since the last use of the session in this process.
func (s *idleSession) idle(now time.Time) time.Duration {
	return time.Duration(now.UnixMilli()-s.usedAt.Load()) * time.Millisecond
}

// refused reports whether the store has just refused the session, and need not be called again.
func (s *idleSession) refused(now time.Time) bool {
	at := s.refusedAt.Load()
	return at != 0 && now.UnixMilli()-at < extendEvery.Milliseconds()
}

// due reports whether the session is to be extended. It returns true to one caller per interval.
func (s *idleSession) due(now time.Time) bool {
	extended := s.extendedAt.Load()
	return now.UnixMilli()-extended >= extendEvery.Milliseconds() && s.extendedAt.CompareAndSwap(extended, now.UnixMilli())
}

// notBefore returns the time beyond which the session, which is in use in this process, lasts in the store. That is now, or the
// end of its last extension if those since have failed.
func (s *idleSession) notBefore(now time.Time) time.Time {
	if end := s.stored.Add(SlidingTTL + extendEvery - time.Millisecond); end.Before(now) {
		return end
	}
	return now
}

// LoginSliding is Login for clients that use one token and never exchange it. Its session ends SlidingTTL after its
// last use. The token is valid for AuthenticateSliding only. proof is Login.Proof.
// Errors: *InvalidError, ErrWrongCode, ErrUnavailable.
func (a *Service) LoginSliding(ctx context.Context, c Credentials) (token, proof string, err error) {
	u, s, err := a.openSession(ctx, c, SlidingTTL+extendEvery, withoutSecondFactor)
	if err != nil {
		return "", "", err
	}
	token = a.cfg.Tokens.idleToken(s.ID)
	a.idleSessions.Set(token, newIdleSession(Identity{UserID: u.ID, SessionID: s.ID, Role: u.Role}, s.CreatedAt))
	return token, a.proof(c.From.Proof, u), nil
}

// withoutSecondFactor is the ConfirmFunc of clients that cannot send a second factor. Roles that need one are not in
// effect in their sessions.
func withoutSecondFactor(domain.User, *SecondFactor) (bool, error) { return false, nil }

// AuthenticateSliding verifies the token of an idle-timeout session, counts the use, and returns the identity. It calls
// the store at most once a minute per cached session. While the store is unavailable, a cached session stays valid
// until its idle timeout. Errors: ErrUnauthenticated, ErrUnavailable.
func (a *Service) AuthenticateSliding(ctx context.Context, token string) (Identity, error) {
	now := domain.Moment(a.cfg.Now())
	s, cached := a.idleSessions.Get(token)
	if !cached {
		return a.loadIdleSession(ctx, token, now)
	}
	if a.cfg.Revoked.Has(s.identity.SessionID) || s.refused(now) {
		return Identity{}, domain.ErrUnauthenticated
	}
	if s.idle(now) >= SlidingTTL {
		return a.revalidate(ctx, token, s, now)
	}
	if s.due(now) {
		fresh, err := a.extend(ctx, s.identity.SessionID, now, s.notBefore(now), extendTimeout)
		switch {
		case err == nil:
			s = fresh
			a.idleSessions.Set(strings.Clone(token), s) // the caller's string may be part of a larger string
		case !errors.Is(err, domain.ErrUnavailable):
			a.idleSessions.Delete(token)
			return Identity{}, err
		}
	}
	s.usedAt.Store(now.UnixMilli())
	return s.identity, nil
}

// loadIdleSession authenticates a token that is not in the cache. Concurrent calls for a token share one store call.
func (a *Service) loadIdleSession(ctx context.Context, token string, now time.Time) (Identity, error) {
	id, err := a.cfg.Tokens.parseIdleToken(token)
	if err != nil {
		return Identity{}, err
	}
	s, err := a.idleSessions.Load(ctx, strings.Clone(token), func(ctx context.Context) (*idleSession, error) {
		s, err := a.extend(ctx, id, now, now, loadTimeout)
		if errors.Is(err, domain.ErrUnauthenticated) { // cached as well
			s, err = &idleSession{identity: Identity{SessionID: id}}, nil
			s.refusedAt.Store(now.UnixMilli())
		}
		return s, err
	})
	if err != nil {
		return Identity{}, err
	}
	if s.refused(now) {
		return Identity{}, domain.ErrUnauthenticated
	}
	return s.identity, nil
}

// revalidate authenticates a session whose idle timeout has passed in this process. The session is still valid if
// another process has extended it; the stored end is then later than the uses in this process explain. Concurrent calls for
// a token share one store call.
func (a *Service) revalidate(ctx context.Context, token string, s *idleSession, now time.Time) (Identity, error) {
	id, err, _ := a.revalidations.Do(token, func() (any, error) {
		if s.refused(now) { // by a call that has just ended
			return Identity{}, domain.ErrUnauthenticated
		}
		fresh, err := a.extend(ctx, s.identity.SessionID, now, now.Add(extendEvery), loadTimeout)
		switch {
		case errors.Is(err, domain.ErrUnauthenticated):
			s.refusedAt.Store(now.UnixMilli())
			return Identity{}, err
		case err != nil:
			return Identity{}, err
		}
		a.idleSessions.Set(strings.Clone(token), fresh)
		return fresh.identity, nil
	})
	return id.(Identity), err
}

// extend extends a session that lasts beyond after in the store. Other requests may share the call, so the cancellation
// of ctx does not end it.
func (a *Service) extend(ctx context.Context, id string, now, after time.Time, timeout time.Duration) (*idleSession, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	u, err := a.cfg.Store.SlideSession(ctx, id, after, now.Add(SlidingTTL+extendEvery))
	if err != nil {
		return nil, err
	}
	return newIdleSession(Identity{UserID: u.ID, SessionID: id, Role: a.role(u, false)}, now), nil
}

package auth

import (
	"context"
	"errors"
	"seckill/internal/service"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
)

const (
	// SlidingTTL is how long a sliding session lives after its last use.
	SlidingTTL = 30 * time.Minute
	// slideEvery is how often a process moves the end of a session in the store, at most. The store keeps the session
	// for that much longer, so that a use that was not written down does not shorten it.
	slideEvery = time.Minute
	// slideTimeout bounds the question of a caller who cannot be let in without an answer.
	slideTimeout = time.Second
	// slidePatience bounds that of one who is let in anyway.
	slidePatience = 300 * time.Millisecond
	// maxSliding bounds the sessions that a process remembers, at about 300 bytes each. Of others the store is asked.
	maxSliding = 100_000
)

// slidingSession is what this process knows of a sliding session. Everything but the two times never changes.
type slidingSession struct {
	identity Identity
	usedAt   atomic.Int64 // unix milliseconds
	slidAt   atomic.Int64 // when its end was last moved, or somebody tried to
}

func newSlidingSession(id Identity, now time.Time) *slidingSession {
	s := &slidingSession{identity: id}
	s.usedAt.Store(now.UnixMilli())
	s.slidAt.Store(now.UnixMilli())
	return s
}

// idle is how long nobody has used the session, as far as this process knows.
func (s *slidingSession) idle(now time.Time) time.Duration {
	return time.Duration(now.UnixMilli()-s.usedAt.Load()) * time.Millisecond
}

// due says whether this caller, and no other, is to move the end of the session.
func (s *slidingSession) due(now time.Time) bool {
	slid := s.slidAt.Load()
	return now.UnixMilli()-slid >= slideEvery.Milliseconds() && s.slidAt.CompareAndSwap(slid, now.UnixMilli())
}

func newSlidingCache() *otter.Cache[string, *slidingSession] {
	return otter.Must(&otter.Options[string, *slidingSession]{MaximumSize: maxSliding})
}

// LoginSliding is Login for clients that read one token and never exchange it: its session ends SlidingTTL after its
// last use. The token is good for AuthenticateSliding only. Errors: *InvalidError, ErrWrongCode, ErrUnavailable.
func (a *Service) LoginSliding(ctx context.Context, phone, code string) (token string, err error) {
	u, s, err := a.openSession(ctx, phone, code, SlidingTTL+slideEvery)
	if err != nil {
		return "", err
	}
	token = a.cfg.Tokens.sliding(s.ID)
	a.sliding.Set(token, newSlidingSession(Identity{UserID: u.ID, SessionID: s.ID, Role: u.Role}, s.CreatedAt))
	return token, nil
}

// AuthenticateSliding says who the token of a sliding session speaks for, and counts as a use of it. The store is asked
// once a minute; while it does not answer, a session that this process knows is still good. Errors: ErrUnauthenticated,
// ErrUnavailable.
func (a *Service) AuthenticateSliding(ctx context.Context, token string) (Identity, error) {
	now := service.Moment(a.cfg.Now())
	s, known := a.sliding.GetIfPresent(token)
	if !known {
		return a.meetSliding(ctx, token, now)
	}
	if a.cfg.Revoked.Has(s.identity.SessionID) {
		return Identity{}, service.ErrUnauthenticated
	}
	if s.idle(now) >= SlidingTTL {
		return a.wakeSliding(ctx, token, s, now)
	}
	if s.due(now) {
		fresh, err := a.slide(ctx, s.identity.SessionID, now, now, slidePatience)
		switch {
		case err == nil:
			s = fresh
			a.sliding.Set(strings.Clone(token), s) // the caller's string may be a part of a larger one
		case !errors.Is(err, service.ErrUnavailable):
			a.sliding.Invalidate(token)
			return Identity{}, err
		}
	}
	s.usedAt.Store(now.UnixMilli())
	return s.identity, nil
}

// meetSliding authenticates a token that this process does not know. Callers who come together share one question.
func (a *Service) meetSliding(ctx context.Context, token string, now time.Time) (Identity, error) {
	id, err := a.cfg.Tokens.parseSliding(token)
	if err != nil {
		return Identity{}, err
	}
	s, err := a.sliding.Get(ctx, strings.Clone(token), otter.LoaderFunc[string, *slidingSession](
		func(ctx context.Context, _ string) (*slidingSession, error) {
			return a.slide(ctx, id, now, now, slideTimeout)
		},
	))
	if err != nil {
		return Identity{}, err
	}
	return s.identity, nil
}

// wakeSliding authenticates a token that was not used here for too long. Another process may have seen it since: then
// the store keeps the session for longer than the uses here explain.
func (a *Service) wakeSliding(ctx context.Context, token string, s *slidingSession, now time.Time) (Identity, error) {
	s, err := a.slide(ctx, s.identity.SessionID, now, now.Add(slideEvery), slideTimeout)
	if err != nil {
		return Identity{}, err // and what is remembered stays, so that the next try is refused, too
	}
	a.sliding.Set(strings.Clone(token), s)
	return s.identity, nil
}

// slide moves the end of a session that lasts beyond after. Somebody may wait for the answer together with its caller,
// who must not be able to call it off.
func (a *Service) slide(ctx context.Context, id string, now, after time.Time, patience time.Duration) (*slidingSession, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	u, err := a.cfg.Store.SlideSession(ctx, id, after, now.Add(SlidingTTL+slideEvery))
	if err != nil {
		return nil, err
	}
	return newSlidingSession(Identity{UserID: u.ID, SessionID: id, Role: a.role(u)}, now), nil
}

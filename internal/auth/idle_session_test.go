package auth

import (
	"context"
	"errors"
	"log/slog"
	"seckill/internal/service"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sessionTable is a store of sessions that counts how often it is asked.
type sessionTable struct {
	Store // what sliding sessions do not need

	mu      sync.Mutex
	ends    map[string]time.Time
	role    service.Role
	asked   int
	err     error         // what it answers instead
	holding chan struct{} // not nil: it answers when this is closed
}

func (s *sessionTable) SlideSession(_ context.Context, id string, after, expires time.Time) (service.User, error) {
	s.mu.Lock()
	s.asked++
	holding := s.holding
	s.mu.Unlock()
	if holding != nil {
		<-holding
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return service.User{}, s.err
	}
	if !s.ends[id].After(after) {
		return service.User{}, service.ErrUnauthenticated
	}
	if expires.After(s.ends[id]) {
		s.ends[id] = expires
	}
	return service.User{ID: 7, Role: s.role}, nil
}

func (s *sessionTable) OpenSession(_ context.Context, _ service.User, sess Session, _ func(*LoginCode) bool) (service.User, error) {
	s.ends[sess.ID] = sess.ExpiresAt
	return service.User{ID: 7, Role: s.role}, nil
}

// fail makes the store answer err from now on; nil heals it.
func (s *sessionTable) fail(err error) { s.mu.Lock(); s.err = err; s.mu.Unlock() }

// took returns how often the store was asked since the last call.
func (s *sessionTable) took() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.asked
	s.asked = 0
	return n
}

// slider is a login, and processes that share a store and a clock.
type slider struct {
	t     *testing.T
	table *sessionTable
	now   time.Time
	token string
}

func newSlider(t *testing.T) (*slider, *Service) {
	s := &slider{t: t, table: &sessionTable{ends: map[string]time.Time{}, role: service.RoleBuyer}, now: testNow}
	a := s.process()
	var err error
	s.token, err = a.LoginSliding(t.Context(), "13800000001", "123456")
	require.NoError(t, err)
	return s, a
}

// process makes another process on the store.
func (s *slider) process() *Service {
	clock := func() time.Time { return s.now }
	tokens, err := NewTokens(testSecret, clock)
	require.NoError(s.t, err)
	return New(Config{
		Store: s.table, Tokens: tokens, Revoked: NewRevocations(nil, clock, slog.New(slog.DiscardHandler)), Now: clock,
	})
}

// use is one request to a process.
func (s *slider) use(a *Service) error {
	id, err := a.AuthenticateSliding(s.t.Context(), s.token)
	if err == nil {
		require.Equal(s.t, int64(7), id.UserID)
		require.True(s.t, strings.HasPrefix(s.token, id.SessionID+"."))
	}
	return err
}

func TestSlidingSessionEndsAfterItsLastUse(t *testing.T) {
	s, a := newSlider(t)
	for _, idle := range []time.Duration{59 * time.Second, 29 * time.Minute, SlidingTTL - time.Millisecond, time.Second, SlidingTTL - time.Millisecond} {
		s.now = s.now.Add(idle)
		require.NoError(t, s.use(a), "after %s", idle)
	}
	s.now = s.now.Add(SlidingTTL)
	require.ErrorIs(t, s.use(a), service.ErrUnauthenticated)
	require.ErrorIs(t, s.use(a), service.ErrUnauthenticated, "nor at the second try")
	s.now = s.now.Add(slideEvery)
	require.ErrorIs(t, s.use(s.process()), service.ErrUnauthenticated, "nor elsewhere")
}

// TestSlidingSessionAsksOnceAMinute: the hot path costs no query.
func TestSlidingSessionAsksOnceAMinute(t *testing.T) {
	s, a := newSlider(t)
	for range 10 {
		for range 100 {
			require.NoError(t, s.use(a))
		}
		s.now = s.now.Add(slideEvery - time.Millisecond)
		require.NoError(t, s.use(a))
		require.Zero(t, s.table.took())
		s.now = s.now.Add(time.Millisecond)
		require.NoError(t, s.use(a))
		require.Equal(t, 1, s.table.took())
	}
}

// TestSlidingSessionOfManyCallers: also those who come at once ask once, where the session is known and where it is not.
func TestSlidingSessionOfManyCallers(t *testing.T) {
	s, known := newSlider(t)
	s.now = s.now.Add(slideEvery)
	for name, a := range map[string]*Service{"known": known, "not known": s.process()} {
		s.table.holding = make(chan struct{})
		errs := make(chan error)
		for range 50 {
			go func() { errs <- s.use(a) }()
		}
		require.Eventually(t, func() bool { s.table.mu.Lock(); defer s.table.mu.Unlock(); return s.table.asked > 0 }, time.Minute, time.Millisecond)
		close(s.table.holding)
		for range 50 {
			require.NoError(t, <-errs)
		}
		require.Equal(t, 1, s.table.took(), name)
	}
}

// TestSlidingSessionOnTwoProcesses: a use on one keeps it for the other.
func TestSlidingSessionOnTwoProcesses(t *testing.T) {
	s, one := newSlider(t)
	two := s.process()
	for range 4 {
		s.now = s.now.Add(20 * time.Minute)
		require.NoError(t, s.use(two))
	}
	require.NoError(t, s.use(one), "which has not seen it for 80 minutes")
	s.now = s.now.Add(slideEvery - time.Millisecond)
	require.NoError(t, s.use(one), "a use that is not written down")
	s.now = s.now.Add(SlidingTTL - time.Millisecond)
	require.NoError(t, s.use(s.process()), "after a restart")
}

// TestSlidingSessionWithoutStore: whoever is known gets in, and nobody else.
func TestSlidingSessionWithoutStore(t *testing.T) {
	s, a := newSlider(t)
	s.table.fail(service.ErrUnavailable)
	s.now = s.now.Add(29 * time.Minute)
	require.NoError(t, s.use(a))
	require.ErrorIs(t, s.use(s.process()), service.ErrUnavailable)
	require.Equal(t, 2, s.table.took())
	require.NoError(t, s.use(a))
	require.Zero(t, s.table.took(), "the next try is a minute later")
	s.now = s.now.Add(SlidingTTL)
	require.ErrorIs(t, s.use(a), service.ErrUnavailable)
	s.table.fail(nil)
	require.ErrorIs(t, s.use(a), service.ErrUnauthenticated)
}

// TestSlidingSessionThatTheStoreRefuses is over at once, not a minute later.
func TestSlidingSessionThatTheStoreRefuses(t *testing.T) {
	for _, refusal := range []error{service.ErrUnauthenticated, errors.New("a bug")} {
		s, a := newSlider(t)
		s.now = s.now.Add(slideEvery)
		s.table.fail(refusal)
		require.ErrorIs(t, s.use(a), refusal)
		require.ErrorIs(t, s.use(a), refusal)
	}
}

func TestSlidingSessionLearnsTheRole(t *testing.T) {
	s, a := newSlider(t)
	s.table.role = service.RoleAdmin
	s.now = s.now.Add(slideEvery)
	for range 2 { // and remembers it
		id, err := a.AuthenticateSliding(t.Context(), s.token)
		require.NoError(t, err)
		require.Equal(t, service.RoleAdmin, id.Role)
	}
}

func TestSlidingSessionRevoked(t *testing.T) {
	s, a := newSlider(t)
	id, err := a.AuthenticateSliding(t.Context(), s.token)
	require.NoError(t, err)
	a.cfg.Revoked.Add(id.SessionID, s.now.Add(time.Hour)) // what the poller does
	require.ErrorIs(t, s.use(a), service.ErrUnauthenticated)
	require.Zero(t, s.table.took())
}

// TestMadeUpSlidingTokens cost the store nothing and are not remembered.
func TestMadeUpSlidingTokens(t *testing.T) {
	s, a := newSlider(t)
	for range 100 {
		_, err := a.AuthenticateSliding(t.Context(), NewSessionID()+s.token[32:])
		require.ErrorIs(t, err, service.ErrUnauthenticated)
	}
	require.Zero(t, s.table.took())
	require.Equal(t, 1, a.sliding.EstimatedSize())
}

package auth

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// sessionTable is a Store of sessions that counts its calls.
type sessionTable struct {
	Store // nil: the other methods are not called

	mu      sync.Mutex
	ends    map[string]time.Time
	role    domain.Role
	calls   int
	err     error         // the result of SlideSession, if not nil
	blocked chan struct{} // if not nil, calls block until it is closed
}

func (s *sessionTable) SlideSession(_ context.Context, id string, after, expires time.Time) (domain.User, error) {
	s.mu.Lock()
	s.calls++
	blocked := s.blocked
	s.mu.Unlock()
	if blocked != nil {
		<-blocked
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return domain.User{}, s.err
	}
	if !s.ends[id].After(after) {
		return domain.User{}, domain.ErrUnauthenticated
	}
	if expires.After(s.ends[id]) {
		s.ends[id] = expires
	}
	return domain.User{ID: 7, Role: s.role}, nil
}

func (s *sessionTable) OpenSession(_ context.Context, _ Guess, _ domain.User, sess Session, _ func(*LoginRequest) bool, _ ConfirmFunc) (domain.User, error) {
	s.ends[sess.ID] = sess.ExpiresAt
	return domain.User{ID: 7, Role: s.role}, nil
}

// fail sets the error of later calls; nil removes it.
func (s *sessionTable) fail(err error) { s.mu.Lock(); s.err = err; s.mu.Unlock() }

// takeCalls returns the number of store calls since it was last called.
func (s *sessionTable) takeCalls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.calls
	s.calls = 0
	return n
}

// anyPhone accepts all texts as canonical numbers of China.
type anyPhone struct{}

func (anyPhone) Parse(text string) (phone, country string, err error) { return text, "CN", nil }

// idleRig is a logged-in session, with processes that share a store and a clock.
type idleRig struct {
	t     *testing.T
	table *sessionTable
	now   time.Time
	token string
}

func newIdleRig(t *testing.T) (*idleRig, *Service) {
	s := &idleRig{t: t, table: &sessionTable{ends: map[string]time.Time{}, role: domain.RoleBuyer}, now: testNow}
	a := s.process()
	var err error
	s.token, _, err = a.LoginSliding(t.Context(), Credentials{Phone: "13800000001", Code: "123456"})
	require.NoError(t, err)
	return s, a
}

// process starts another process with the same store.
func (s *idleRig) process() *Service {
	clock := func() time.Time { return s.now }
	tokens, err := NewTokens(testSecret, clock)
	require.NoError(s.t, err)
	return New(Config{
		Store: s.table, Phones: anyPhone{}, Tokens: tokens, Revoked: NewRevocations(nil, clock, slog.New(slog.DiscardHandler)), Now: clock,
	})
}

// use sends one request to a process.
func (s *idleRig) use(a *Service) error {
	id, err := a.AuthenticateSliding(s.t.Context(), s.token)
	if err == nil {
		require.Equal(s.t, int64(7), id.UserID)
		require.True(s.t, strings.HasPrefix(s.token, id.SessionID+"."))
	}
	return err
}

func TestIdleSessionEndsAfterItsLastUse(t *testing.T) {
	s, a := newIdleRig(t)
	for _, idle := range []time.Duration{59 * time.Second, 29 * time.Minute, SlidingTTL - time.Millisecond, time.Second, SlidingTTL - time.Millisecond} {
		s.now = s.now.Add(idle)
		require.NoError(t, s.use(a), "after %s", idle)
	}
	s.now = s.now.Add(SlidingTTL)
	require.ErrorIs(t, s.use(a), domain.ErrUnauthenticated)
	require.ErrorIs(t, s.use(a), domain.ErrUnauthenticated, "at a second attempt")
	s.now = s.now.Add(extendEvery)
	require.ErrorIs(t, s.use(s.process()), domain.ErrUnauthenticated, "in another process")
}

// Most requests need no query.
func TestIdleSessionIsExtendedOnceAMinute(t *testing.T) {
	s, a := newIdleRig(t)
	for range 10 {
		for range 100 {
			require.NoError(t, s.use(a))
		}
		s.now = s.now.Add(extendEvery - time.Millisecond)
		require.NoError(t, s.use(a))
		require.Zero(t, s.table.takeCalls())
		s.now = s.now.Add(time.Millisecond)
		require.NoError(t, s.use(a))
		require.Equal(t, 1, s.table.takeCalls())
	}
}

// The session is in the cache of one process and not in that of the other.
func TestConcurrentUsesShareAStoreCall(t *testing.T) {
	s, cached := newIdleRig(t)
	s.now = s.now.Add(extendEvery)
	for name, a := range map[string]*Service{"cached": cached, "not cached": s.process()} {
		s.table.blocked = make(chan struct{})
		errs := make(chan error)
		for range 50 {
			go func() { errs <- s.use(a) }()
		}
		require.Eventually(t, func() bool { s.table.mu.Lock(); defer s.table.mu.Unlock(); return s.table.calls > 0 }, time.Minute, time.Millisecond)
		close(s.table.blocked)
		for range 50 {
			require.NoError(t, <-errs)
		}
		require.Equal(t, 1, s.table.takeCalls(), name)
	}
}

func TestUseInOneProcessExtendsTheSessionInAnother(t *testing.T) {
	s, one := newIdleRig(t)
	two := s.process()
	for range 4 {
		s.now = s.now.Add(20 * time.Minute)
		require.NoError(t, s.use(two))
	}
	require.NoError(t, s.use(one), "its last use there was 80 minutes ago")
	s.now = s.now.Add(extendEvery - time.Millisecond)
	require.NoError(t, s.use(one), "a use that is not stored")
	s.now = s.now.Add(SlidingTTL - time.Millisecond)
	require.NoError(t, s.use(s.process()), "after a restart")
}

func TestOnlyCachedSessionsWorkWithoutTheStore(t *testing.T) {
	s, a := newIdleRig(t)
	s.table.fail(domain.ErrUnavailable)
	s.now = s.now.Add(29 * time.Minute)
	require.NoError(t, s.use(a))
	require.ErrorIs(t, s.use(s.process()), domain.ErrUnavailable)
	require.Equal(t, 2, s.table.takeCalls())
	require.NoError(t, s.use(a))
	require.Zero(t, s.table.takeCalls(), "it is extended again a minute later")
	s.now = s.now.Add(SlidingTTL)
	require.ErrorIs(t, s.use(a), domain.ErrUnavailable)
	s.table.fail(nil)
	require.ErrorIs(t, s.use(a), domain.ErrUnauthenticated)
}

// The stored end has passed, because the store did not answer at the last use. The session has not been idle for so long.
func TestFailedExtensionDoesNotShortenTheIdleTimeout(t *testing.T) {
	s, a := newIdleRig(t)
	for range 3 {
		s.table.fail(domain.ErrUnavailable)
		s.now = s.now.Add(29 * time.Minute)
		require.NoError(t, s.use(a))
		s.table.fail(nil)
		s.now = s.now.Add(29 * time.Minute)
		require.NoError(t, s.use(a))
		require.NoError(t, s.use(s.process()), "it is stored again")
	}
	s.table.fail(domain.ErrUnavailable)
	s.now = s.now.Add(29 * time.Minute)
	require.NoError(t, s.use(a))
	s.table.fail(nil)
	s.now = s.now.Add(SlidingTTL)
	require.ErrorIs(t, s.use(a), domain.ErrUnauthenticated)
}

// A session that the store refuses ends at once, not a minute later.
func TestRefusedSessionEndsAtOnce(t *testing.T) {
	for _, refusal := range []error{domain.ErrUnauthenticated, errors.New("a bug")} {
		s, a := newIdleRig(t)
		s.now = s.now.Add(extendEvery)
		s.table.fail(refusal)
		require.ErrorIs(t, s.use(a), refusal)
		require.ErrorIs(t, s.use(a), refusal)
	}
}

func TestExtendingASessionUpdatesTheRole(t *testing.T) {
	s, a := newIdleRig(t)
	s.table.role = domain.RoleAdmin
	s.now = s.now.Add(extendEvery)
	for range 2 { // the second use is answered from the cache
		id, err := a.AuthenticateSliding(t.Context(), s.token)
		require.NoError(t, err)
		require.Equal(t, domain.RoleAdmin, id.Role)
	}
}

func TestRevokedIdleSessionIsRefused(t *testing.T) {
	s, a := newIdleRig(t)
	id, err := a.AuthenticateSliding(t.Context(), s.token)
	require.NoError(t, err)
	a.cfg.Revoked.Add(s.now.Add(time.Hour), id.SessionID) // as the poll does
	require.ErrorIs(t, s.use(a), domain.ErrUnauthenticated)
	require.Zero(t, s.table.takeCalls())
}

// A token that the store refuses costs one store call a minute in each process, however often it is sent.
func TestRefusedIdleTokenCostsOneCallAMinute(t *testing.T) {
	s, a := newIdleRig(t)
	s.now = s.now.Add(SlidingTTL + extendEvery)
	for range 2 {
		for _, process := range []*Service{a, s.process()} { // one of them has cached the session
			for range 100 {
				require.ErrorIs(t, s.use(process), domain.ErrUnauthenticated)
			}
			require.Equal(t, 1, s.table.takeCalls())
		}
		s.now = s.now.Add(extendEvery)
	}
}

// Forged tokens cause no store calls and are not cached.
func TestForgedIdleTokensCostNothing(t *testing.T) {
	s, a := newIdleRig(t)
	for range 100 {
		_, err := a.AuthenticateSliding(t.Context(), NewSessionID()+s.token[32:])
		require.ErrorIs(t, err, domain.ErrUnauthenticated)
	}
	require.Zero(t, s.table.takeCalls())
	require.Len(t, maps.Collect(a.idleSessions.All()), 1)
}

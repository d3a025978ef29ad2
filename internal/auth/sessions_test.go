package auth

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// sessionTable is a Store of one session that counts its reads.
type sessionTable struct {
	Store // nil: the other methods are not called

	ends  time.Time
	role  domain.Role
	reads int
	err   error // of each read, if not nil
}

func (s *sessionTable) SessionUser(context.Context, string) (domain.User, time.Time, error) {
	s.reads++
	time.Sleep(time.Millisecond) // so that concurrent reads meet
	return domain.User{ID: 7, Role: s.role}, s.ends, s.err
}

func newPageRig(t *testing.T) (*sessionTable, *Service, string) {
	table := &sessionTable{ends: time.Now().Add(PageSessionTTL), role: domain.RoleBuyer}
	tokens, err := NewTokens(testSecret, time.Now)
	require.NoError(t, err)
	a := New(Config{
		Store: table, Tokens: tokens, Revoked: NewRevocations(nil, time.Now, slog.New(slog.DiscardHandler)), Now: time.Now,
	})
	return table, a, tokens.pageToken(NewSessionID())
}

// Most requests need no query, and a role is as old as that of an access token at most.
func TestPageSessionIsReadAgainAfterAccessTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a, token := newPageRig(t)
		for range 100 {
			id, err := a.AuthenticatePage(t.Context(), token)
			require.NoError(t, err)
			require.Equal(t, domain.RoleBuyer, id.Role)
		}
		require.Equal(t, 1, table.reads)

		table.role = domain.RoleViewer
		time.Sleep(AccessTTL)
		id, err := a.AuthenticatePage(t.Context(), token)
		require.NoError(t, err)
		require.Equal(t, domain.RoleViewer, id.Role)
		require.Equal(t, 2, table.reads)
	})
}

func TestConcurrentUsesOfPageSessionShareARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a, token := newPageRig(t)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				_, err := a.AuthenticatePage(t.Context(), token)
				require.NoError(t, err)
			})
		}
		all.Wait()
		require.Equal(t, 1, table.reads)
	})
}

// While the store is unavailable, only sessions that were read before are valid, and it is asked once a minute.
func TestPageSessionWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a, token := newPageRig(t)
		use := func() error {
			_, err := a.AuthenticatePage(t.Context(), token)
			return err
		}
		table.err = domain.ErrUnavailable
		require.ErrorIs(t, use(), domain.ErrUnavailable)

		table.err = nil
		require.NoError(t, use())
		table.err = domain.ErrUnavailable
		table.reads = 0
		time.Sleep(AccessTTL)
		for range 3 {
			require.NoError(t, use())
			require.NoError(t, use())
			time.Sleep(pageSessionRetry)
		}
		require.Equal(t, 3, table.reads)

		time.Sleep(PageSessionTTL)
		require.ErrorIs(t, use(), domain.ErrUnauthenticated, "it has ended")
	})
}

// A revoked session, one that the store refuses, and a forged token cost no further reads.
func TestInvalidPageSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a, token := newPageRig(t)
		refused := func(token string, reads int) {
			t.Helper()
			table.reads = 0
			for range 10 {
				_, err := a.AuthenticatePage(t.Context(), token)
				require.ErrorIs(t, err, domain.ErrUnauthenticated)
			}
			require.Equal(t, reads, table.reads)
		}
		refused(NewSessionID()+token[32:], 0)

		id, err := a.AuthenticatePage(t.Context(), token)
		require.NoError(t, err)
		a.cfg.Revoked.Add(time.Now().Add(time.Hour), id.SessionID) // as the poll does
		refused(token, 0)

		table.err = domain.ErrUnauthenticated
		refused(a.cfg.Tokens.pageToken(NewSessionID()), 1)
	})
}

package app

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// TestShutdownDoesNotWaitForStuckRush checks that close cancels a rush and returns at its deadline, even if the rush
// never ends.
func TestShutdownDoesNotWaitForStuckRush(t *testing.T) {
	t.Parallel()
	r := newRushRunner(nil, nil, nil)
	r.setURL("http://127.0.0.1:1")
	running, cancel, err := r.begin(t.Context(), 1, 1) // never finished
	require.NoError(t, err)
	defer cancel(nil)
	deadline, expire := context.WithCancel(t.Context())
	expire()
	r.close(deadline)
	require.ErrorIs(t, context.Cause(running), errShutdown)
	_, err = r.Start(t.Context(), nil, 1, 1, 1)
	require.ErrorIs(t, err, domain.ErrUnavailable)
}

// TestRushVerdictsUseDatabaseTotals checks that purchases by other users in the rush's sale break no invariant, and
// that a real difference does.
func TestRushVerdictsUseDatabaseTotals(t *testing.T) {
	clients := domain.NewVerdict("I3", false, "39 sold + 0 left = 39")
	totals := domain.SaleTotals{InitialStock: 40, Active: 40}
	require.Equal(t, domain.NewVerdict("I3", true, "0 left + 40 active = 40"), withTotals(clients, totals))
	totals.Active = 39
	require.True(t, withTotals(clients, totals).Broken())
	clients.ID = "I4" // concerns answers, which the database does not have
	require.Equal(t, clients, withTotals(clients, totals))
}

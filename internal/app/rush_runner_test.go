package app

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/salestats"
	"seckill/internal/service"
)

// TestStuckRushDoesNotHoldTheServer: a server that stops waits for its crowd within its deadline.
func TestStuckRushDoesNotHoldTheServer(t *testing.T) {
	t.Parallel()
	r := newRushes(nil, nil, nil)
	r.listen("http://127.0.0.1:1")
	running, cancel, err := r.begin(t.Context(), 1, 1) // and nobody ever ends it
	require.NoError(t, err)
	defer cancel(nil)
	deadline, over := context.WithCancel(t.Context())
	over()
	(&console{subscribers: salestats.NewSubscribers(), rushes: r}).close(deadline)
	require.ErrorIs(t, context.Cause(running), errServerStops)
	_, err = r.Start(t.Context(), 1, 1, 1)
	require.ErrorIs(t, err, service.ErrUnavailable)
}

// TestRushIsJudgedByTheBooks: somebody else who buys in the rush's sale breaks no promise, and what is broken is seen.
func TestRushIsJudgedByTheBooks(t *testing.T) {
	crowdsay := service.Verdict{ID: "I3", Title: "Conservation", Detail: "39 sold + 0 left = 39"}
	books := service.Books{InitialStock: 40, Active: 40}
	require.Equal(t, service.Verdict{ID: "I3", Title: "Conservation", OK: true, Detail: "0 left + 40 active = 40"}, byTheBooks(crowdsay, books))
	books.Active = 39
	require.False(t, byTheBooks(crowdsay, books).OK)
	crowdsay.ID = "I4" // what was answered is known to the crowd alone
	require.Equal(t, crowdsay, byTheBooks(crowdsay, books))
}

package repo

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/sale/admission"
	"seckill/internal/sale/lane"
	"seckill/test/testenv"
)

// ofGeneration returns an order that a gate with a generation has admitted, the newest of a user of its own.
func ofGeneration(generation, id, voucher int64) domain.NewOrder {
	return domain.NewOrder{Order: newOrder(id, id, voucher), Limit: 1, Generation: &generation}
}

func placedErrs(placed []domain.Placed) []error {
	errs := make([]error, len(placed))
	for i, p := range placed {
		errs[i] = p.Err
	}
	return errs
}

// An order is stored only if its gate has the generation of the sale. Lanes without a gate need none.
func TestOrdersOfOtherGenerationAreRefused(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		v, other := newSale(t, s, 3, 1), newSale(t, s, 3, 1)
		fence := func(from int64) bool {
			t.Helper()
			fenced, err := s.FenceGate(ctx, v.ID, from)
			require.NoError(t, err)
			return fenced
		}
		place := func(orders ...domain.NewOrder) []error { return placedErrs(s.PlaceOrders(ctx, orders)) }
		require.Equal(t, []error{nil}, place(ofGeneration(0, 1, v.ID)))
		before, err := s.Voucher(ctx, v.ID)
		require.NoError(t, err)

		require.True(t, fence(0))
		require.False(t, fence(0), "another load has raised it")
		generation, err := s.GateGeneration(ctx, v.ID)
		require.NoError(t, err)
		require.EqualValues(t, 1, generation)
		after, err := s.Voucher(ctx, v.ID)
		require.NoError(t, err)
		require.NotEqual(t, before.Sale.ChangedAt, after.Sale.ChangedAt, "lists of buyers are outdated")

		require.Equal(t, []error{domain.ErrGateReplaced}, place(ofGeneration(0, 2, v.ID)))
		require.Equal(t, []error{domain.ErrGateReplaced, domain.ErrGateReplaced}, place(ofGeneration(0, 2, v.ID), ofGeneration(0, 3, v.ID)))
		require.Equal(t, []error{nil}, place(ofGeneration(0, 1, v.ID)), "it is stored already")
		requireTotals(t, s, v.ID, 2, 1)

		// Rows of all kinds in one transaction.
		require.Equal(t, []error{domain.ErrGateReplaced, nil, nil, domain.ErrGateReplaced, nil}, place(
			ofGeneration(0, 2, v.ID), ofGeneration(1, 3, v.ID), ofGeneration(0, 4, other.ID), ofGeneration(2, 5, v.ID),
			domain.NewOrder{Order: newOrder(6, 6, v.ID), Limit: 1},
		))
		requireTotals(t, s, v.ID, 0, 3)
		requireTotals(t, s, other.ID, 2, 1)
		require.Equal(t, []error{domain.ErrSoldOut, domain.ErrGateReplaced}, place(ofGeneration(1, 7, v.ID), ofGeneration(0, 8, v.ID)))

		_, err = s.GateGeneration(ctx, 404)
		require.ErrorIs(t, err, domain.ErrNotFound)
	})
}

// A worker has read an entry when Redis loses it, or only the gate. A process that has never used the gate loads it.
func TestLostAdmissionIsNotCommitted(t *testing.T) {
	server := testenv.StartRedis(t)
	onEach(t, func(t *testing.T, s *Store) {
		for _, streamIsLost := range []bool{true, false} {
			ctx, rdb := t.Context(), server.Client(t)
			require.NoError(t, rdb.FlushDB(ctx).Err())
			v := newSale(t, s, 1, 1)
			newGate := func() *admission.Gate {
				g := admission.New(admission.Config{Redis: rdb, Instance: "here", Log: slog.New(slog.DiscardHandler)})
				t.Cleanup(g.Close)
				return g
			}
			reserve := func(g *admission.Gate, order, user int64) error {
				window := domain.Window{Begin: time.Now().Add(-time.Hour), End: time.Now().Add(time.Hour)}
				results, err := g.Reserve(ctx, v.ID, window, []domain.Admission{
					{OrderID: order, UserID: user, VoucherID: v.ID, Amount: 100, Currency: "CNY", Limit: 1, At: now},
				})
				require.NoError(t, err)
				return results[0]
			}
			committer := lane.Committer{Orders: s, Now: func() time.Time { return now }, PayTimeout: time.Minute}

			g := newGate()
			require.NoError(t, g.Load(ctx, v.ID, s))
			require.NoError(t, reserve(g, v.ID<<32+1, 1))
			stream := admission.Streams()[v.ID%16]
			read := rdb.XRange(ctx, stream, "-", "+").Val()[0]
			inHand, err := g.Parse(stream, read.ID, read.Values)
			require.NoError(t, err)

			if streamIsLost {
				require.NoError(t, rdb.FlushDB(ctx).Err())
			} else {
				require.NoError(t, g.Unload(ctx, v.ID))
			}
			started := newGate()
			require.NoError(t, started.Load(ctx, v.ID, s))
			require.Equal(t, []error{domain.ErrGateReplaced}, committer.Commit(ctx, inHand.Admissions))
			generation, err := started.Confirm(ctx, inHand)
			if streamIsLost {
				require.ErrorIs(t, err, domain.ErrNotFound)
				require.NoError(t, reserve(started, v.ID<<32+2, 2))
				require.ErrorIs(t, reserve(started, v.ID<<32+3, 1), domain.ErrSoldOut)
				require.Equal(t, []error{domain.ErrGateReplaced}, committer.Commit(ctx, inHand.Admissions))
				requireTotals(t, s, v.ID, 1, 0)
				continue
			}
			require.NoError(t, err)
			require.ErrorAs(t, reserve(started, v.ID<<32+3, 1), new(*domain.DuplicateOrderError))
			inHand.Admissions[0].Generation = generation
			require.Equal(t, []error{nil}, committer.Commit(ctx, inHand.Admissions))
			requireTotals(t, s, v.ID, 0, 1)
		}
	})
}

package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/domain"
	"seckill/internal/queue"
	"seckill/internal/service"
	"seckill/test/testenv"
)

// faultRuns limits the runs in which a planted fault must be found.
const faultRuns = 400

// plantedFault replaces parts of the product with defective ones.
type plantedFault struct {
	lane   string // the lane under test; empty means batch
	store  func(w *world, s lifeStore) lifeStore
	queue  func(w *world, q service.ReservationStore) service.ReservationStore
	commit func(next queue.CommitFunc) queue.CommitFunc // called once per worker
	// script runs after a script in Redis. args begins with the keys.
	script func(w *world, name string, args []any, reply *redis.Cmd)
	// command may change a command before Redis executes it.
	command func(args []any)
}

// TestLifeFindsFaults requires that the simulation finds each of the planted faults, on SQLite.
func TestLifeFindsFaults(t *testing.T) {
	testenv.FullNoRace(t, "it shows what TestLife finds")
	setRapid(t, "checks", faultRuns)
	setRapid(t, "steps", 2*lifeSteps) // longer runs instead of more conclusions
	setRapid(t, "nofailfile", true)
	setRapid(t, "shrinktime", "0s")
	s := stack{open: emptySQLite(t)}
	s.rdb = redis.NewClient(&redis.Options{Addr: testenv.StartMiniredis(t).Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = s.rdb.Close() })
	for _, name := range slices.Sorted(maps.Keys(plantedFaults)) {
		t.Run(name, func(t *testing.T) {
			p, d, runs := plantedFaults[name], &summary{counts: map[string]int{}}, 0
			if p.lane == "" {
				p.lane = "batch"
			}
			var failed bool
			inBubble(t, func(t *testing.T) {
				failed = fails(t, func(rt *rapid.T) {
					if d.failure == "" { // after a failure the remaining runs are skipped
						runs++
						runOnce(rt, s, p.lane, p, d)
					}
				})
			})
			require.True(t, failed && d.failure != "", "not found in %d runs", runs)
			t.Logf("found in run %d, after %d steps: %s", runs, d.counts["step"], firstWords(d.failure))
		})
	}
}

// firstWords returns the message of a failure without its trace.
func firstWords(failure string) string {
	failure, _, _ = strings.Cut(failure, "\nHistory:")
	_, failure, _ = strings.Cut(failure, "Error:")
	return strings.Join(strings.Fields(failure[:min(len(failure), 600)]), " ")
}

// sql changes the database without the services.
func (w *world) sql(query string, args ...any) {
	if _, err := w.db.Exec(query, args...); err != nil {
		panic(fmt.Sprintf("%s: %v", query, err))
	}
}

func (w *world) returnUnits(voucher int64, n int) {
	w.sql("UPDATE seckill_vouchers SET stock = stock + ? WHERE voucher_id = ?", n, voucher)
}

// Defective parts. Each replaces one operation of the store.
type (
	faultyMove   func(s lifeStore, m domain.OrderMove) (domain.Order, error)
	faultyClose  func(s lifeStore) ([]domain.Order, error)
	faultySettle func(s lifeStore, provider string, n domain.PaymentNotice, at time.Time) (domain.Settled, error)
	faultyStore  struct {
		lifeStore
		move   faultyMove
		close  faultyClose
		settle faultySettle
		refund func(s lifeStore, m domain.OrderMove) (domain.Order, error)
		due    func(s lifeStore, limit int, wait func(int) time.Duration) ([]domain.Payment, error)
		finish func(s lifeStore, id int64, at time.Time) (*domain.Order, error)
		begin  func(s lifeStore, userID int64, p domain.Payment) (domain.Order, domain.Payment, error)
		place  func(s lifeStore, orders []domain.NewOrder) []domain.Placed
		stock  func(s lifeStore, c domain.StockChange) (domain.Voucher, error)
		change func(s lifeStore, id int64, by domain.Actor, change func(*domain.Voucher) (string, error)) (domain.Voucher, error)
		read   func(s lifeStore, id int64) (domain.Voucher, error)
	}
)

var ctx = context.Background()

func (f faultyStore) MoveOrder(c context.Context, m domain.OrderMove) (domain.Order, error) {
	if f.move == nil {
		return f.lifeStore.MoveOrder(c, m)
	}
	return f.move(f.lifeStore, m)
}

func (f faultyStore) CloseExpired(c context.Context, limit int) ([]domain.Order, error) {
	if f.close == nil {
		return f.lifeStore.CloseExpired(c, limit)
	}
	return f.close(f.lifeStore)
}

func (f faultyStore) SettlePayment(c context.Context, name string, n domain.PaymentNotice, at time.Time) (domain.Settled, error) {
	if f.settle == nil {
		return f.lifeStore.SettlePayment(c, name, n, at)
	}
	return f.settle(f.lifeStore, name, n, at)
}

func (f faultyStore) BeginRefund(c context.Context, m domain.OrderMove) (domain.Order, error) {
	if f.refund == nil {
		return f.lifeStore.BeginRefund(c, m)
	}
	return f.refund(f.lifeStore, m)
}

func (f faultyStore) DueRefunds(c context.Context, limit int, wait func(int) time.Duration) ([]domain.Payment, error) {
	if f.due == nil {
		return f.lifeStore.DueRefunds(c, limit, wait)
	}
	return f.due(f.lifeStore, limit, wait)
}

func (f faultyStore) FinishRefund(c context.Context, id int64, at time.Time) (*domain.Order, error) {
	if f.finish == nil {
		return f.lifeStore.FinishRefund(c, id, at)
	}
	return f.finish(f.lifeStore, id, at)
}

func (f faultyStore) BeginPayment(
	c context.Context, claim *domain.Claim, userID int64, p domain.Payment,
) (domain.Order, domain.Payment, error) {
	if f.begin == nil {
		return f.lifeStore.BeginPayment(c, claim, userID, p)
	}
	return f.begin(f.lifeStore, userID, p)
}

func (f faultyStore) PlaceOrders(c context.Context, orders []domain.NewOrder) []domain.Placed {
	if f.place == nil {
		return f.lifeStore.PlaceOrders(c, orders)
	}
	return f.place(f.lifeStore, orders)
}

func (f faultyStore) ChangeStock(c context.Context, change domain.StockChange) (domain.Voucher, error) {
	if f.stock == nil {
		return f.lifeStore.ChangeStock(c, change)
	}
	return f.stock(f.lifeStore, change)
}

func (f faultyStore) ChangeVoucher(
	c context.Context, id int64, by domain.Actor, change func(*domain.Voucher) (string, error),
) (domain.Voucher, error) {
	if f.change == nil {
		return f.lifeStore.ChangeVoucher(c, id, by, change)
	}
	return f.change(f.lifeStore, id, by, change)
}

func (f faultyStore) Vouchers(c context.Context, ids []int64) (found []domain.Voucher, err error) {
	if f.read == nil {
		return f.lifeStore.Vouchers(c, ids)
	}
	for _, id := range ids {
		v, err := f.read(f.lifeStore, id)
		if err != nil {
			return nil, err
		}
		found = append(found, v)
	}
	return found, nil
}

// inStore plants a fault in the database.
func inStore(make func(w *world) faultyStore) plantedFault {
	return plantedFault{store: func(w *world, s lifeStore) lifeStore {
		f := make(w)
		f.lifeStore = s
		return f
	}}
}

// afterMove plants a fault that follows one status transition.
func afterMove(name string, then func(w *world, o domain.Order)) plantedFault {
	return inStore(func(w *world) faultyStore {
		return faultyStore{move: func(s lifeStore, m domain.OrderMove) (domain.Order, error) {
			o, err := s.MoveOrder(ctx, m)
			if err == nil && m.Move.Name == name {
				then(w, o)
			}
			return o, err
		}}
	})
}

// in returns the same fault for another lane.
func (p plantedFault) in(lane string) plantedFault {
	p.lane = lane
	return p
}

// faultyQueue is a gate with defective operations.
type faultyQueue struct {
	service.ReservationStore
	release func(q service.ReservationStore, voucherID int64, held []domain.Holder) error
	add     func(q service.ReservationStore, voucherID, delta int64) error
}

func (f faultyQueue) Release(c context.Context, voucherID int64, held ...domain.Holder) error {
	if f.release == nil {
		return f.ReservationStore.Release(c, voucherID, held...)
	}
	return f.release(f.ReservationStore, voucherID, held)
}

func (f faultyQueue) AddStock(c context.Context, voucherID, delta int64) error {
	if f.add == nil {
		return f.ReservationStore.AddStock(c, voucherID, delta)
	}
	return f.add(f.ReservationStore, voucherID, delta)
}

func inQueue(f faultyQueue) plantedFault {
	return plantedFault{lane: "queue", queue: func(_ *world, q service.ReservationStore) service.ReservationStore {
		f.ReservationStore = q
		return f
	}}
}

// afterScript plants a fault that follows a script in Redis.
func afterScript(name string, then func(w *world, args []any, reply *redis.Cmd)) plantedFault {
	return plantedFault{lane: "queue", script: func(w *world, script string, args []any, reply *redis.Cmd) {
		if script == name {
			then(w, args, reply)
		}
	}}
}

// afterLoan plants a fault that follows one of the two scripts of a loan between segments, if it moved units.
func afterLoan(name string, then func(w *world, stock string)) plantedFault {
	return afterScript(name, func(w *world, keys []any, reply *redis.Cmd) {
		if units, _ := reply.Int64(); units > 0 {
			then(w, keys[0].(string))
		}
	})
}

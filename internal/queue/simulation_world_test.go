package queue

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/admission"
	"seckill/internal/domain"
	"seckill/internal/idgen"
	"seckill/internal/lane"
	"seckill/internal/repo"
	"seckill/internal/service"
	"seckill/test/sim"
)

// simUsers is the number of buyers before conclude. It is small, so that users buy repeatedly.
const simUsers = 5

// world has the real parts of a simulation.
type world struct {
	ctx    context.Context
	rdb    *redis.Client // loses no reply
	loser  *replyLoser
	stream string
	shop   *admission.Gate // of the selling process; its replies may be lost
	back   *admission.Gate // of the workers and the checks
	store  *repo.Store
	ids    *idgen.Generator
	gate   lane.Gate // shop, for the lane
	lane   *lane.Queue

	vouchers []simVoucher
	moments  int64     // purchases so far; each is one millisecond after the previous one
	idClock  time.Time // see jump
}

type simVoucher struct {
	id, units int64
	limit     int
}

// laneGate adapts the gate to lane.Gate.
type laneGate struct{ *admission.Gate }

func (g laneGate) Expect(orderID int64) lane.OutcomeWaiter { return g.Gate.Expect(orderID) }

// forgetfulGate has a planted fault: once loaded, a gate does not know that Redis has lost the one before.
type forgetfulGate struct {
	laneGate
	rdb *redis.Client
}

func (g forgetfulGate) Load(ctx context.Context, voucherID int64, read domain.GateReader) error {
	return errors.Join(g.laneGate.Load(ctx, voucherID, read), g.rdb.HDel(ctx, gateKey(voucherID, "meta"), "lost").Err())
}

// deadLetterStore adapts the gate to service.DeadLetterStore.
type deadLetterStore struct{ *admission.Gate }

func (g deadLetterStore) DeadLetters(ctx context.Context, before string, limit int) ([]service.DeadLetter, error) {
	found, err := g.Gate.DeadLetters(ctx, before, limit)
	letters := make([]service.DeadLetter, len(found))
	for i, l := range found {
		letters[i] = service.DeadLetter(l)
	}
	return letters, err
}

func (g deadLetterStore) DeadLetter(ctx context.Context, id string) (service.DeadLetter, error) {
	l, err := g.Gate.DeadLetter(ctx, id)
	return service.DeadLetter(l), err
}

// noonOfSale is the time at which a simulation begins. The clock of a synctest bubble is too early for the database and
// the ids.
var noonOfSale = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func newWorld(t *rapid.T, rdb *redis.Client, template, file string, forgetful bool) *world {
	vouchers := drawVouchers(t) // first: rapid may end the run here, before anything is open
	data, err := os.ReadFile(template)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, data, 0o600))
	store, err := repo.OpenSQLite(file)
	require.NoError(t, err)

	silent := slog.New(slog.DiscardHandler)
	w := &world{
		ctx: context.Background(), loser: &replyLoser{}, store: store, idClock: noonOfSale,
		rdb: another(rdb), stream: admission.Streams()[voucher],
	}
	require.NoError(t, w.rdb.FlushDB(w.ctx).Err())
	lossy := another(rdb)
	lossy.AddHook(w.loser)
	w.loser.client = lossy
	w.shop = admission.New(admission.Config{Redis: lossy, Instance: "shop", Log: silent})
	w.back = admission.New(admission.Config{Redis: w.rdb, Instance: "back", Log: silent})
	w.ids, err = idgen.New(w.rdb, "order", idgen.WithClock(func() time.Time { return w.idClock }))
	require.NoError(t, err)
	w.gate = laneGate{w.shop}
	if forgetful {
		w.gate = forgetfulGate{laneGate{w.shop}, w.rdb}
	}
	w.lane = lane.NewQueue(w.gate, w.ids, store, nil)
	for _, v := range vouchers {
		w.createVoucher(t, v)
	}
	return w
}

// another returns a client of the same database that belongs to the simulation's bubble.
func another(rdb *redis.Client) *redis.Client {
	o := rdb.Options()
	return redis.NewClient(&redis.Options{
		Addr: o.Addr, DB: o.DB, MaxRetries: o.MaxRetries, ContextTimeoutEnabled: o.ContextTimeoutEnabled,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// drawVouchers draws two or three vouchers of one shard.
func drawVouchers(t *rapid.T) []simVoucher {
	vouchers := make([]simVoucher, sim.Evenly(t, "vouchers", 2, 3))
	for i := range vouchers {
		vouchers[i] = simVoucher{
			id: voucher + 16*int64(i), units: sim.Evenly[int64](t, "units", 1, 2, 3, 4, 5, 6), limit: sim.Evenly(t, "limit", 1, 2, 3),
		}
	}
	return vouchers
}

// createVoucher stores a voucher that is on sale.
func (w *world) createVoucher(t *rapid.T, v simVoucher) {
	require.NoError(t, w.store.CreateVoucher(w.ctx, nil, &domain.Voucher{
		ID: v.id, ShopID: 1, Title: "simulated", PayValue: 100, ActualValue: 200, Type: domain.VoucherSeckill,
		Status: domain.VoucherOn, CreatedAt: noonOfSale, UpdatedAt: noonOfSale,
		Sale: &domain.Sale{
			InitialStock: v.units, Stock: v.units, BeginAt: window.Begin, EndAt: window.End, LimitPerUser: v.limit,
		},
	}, domain.Actor{Kind: domain.ActorSystem}))
	w.vouchers = append(w.vouchers, v)
}

func (w *world) close() {
	_ = w.store.Close()
	_ = w.loser.client.Close()
	_ = w.rdb.Close()
}

// window is open by the clock of the server and by that of a bubble.
var window = domain.Window{
	Begin: time.Date(2002, 1, 1, 0, 0, 0, 0, time.UTC), End: time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC),
}

// moment returns the time of the next purchase, which is unique.
func (w *world) moment() time.Time {
	w.moments++
	return noonOfSale.Add(time.Duration(w.moments) * time.Millisecond)
}

// dbOrder has the columns of an order that the simulation checks.
type dbOrder struct {
	id, user, voucher, moment int64
	status                    int
	active                    bool
}

// orders returns all orders by their ids.
func (w *world) orders(t *rapid.T) map[int64]dbOrder {
	rows, err := w.store.Pools()["read"].QueryContext(w.ctx,
		"SELECT id, user_id, voucher_id, CAST(created_at AS INTEGER), status, slot IS NOT NULL FROM voucher_orders")
	require.NoError(t, err)
	defer func() { _ = rows.Close() }()
	orders := map[int64]dbOrder{}
	for rows.Next() {
		var o dbOrder
		require.NoError(t, rows.Scan(&o.id, &o.user, &o.voucher, &o.moment, &o.status, &o.active))
		orders[o.id] = o
	}
	require.NoError(t, rows.Err())
	return orders
}

// entries returns the entries of the stream, oldest first.
func (w *world) entries(t *rapid.T) []domain.StreamEntry {
	entries, err := w.rdb.XRange(w.ctx, w.stream, "-", "+").Result()
	require.NoError(t, err)
	queue := make([]domain.StreamEntry, len(entries))
	for i, e := range entries {
		queue[i], err = w.back.Parse(w.stream, e.ID, e.Values)
		require.NoError(t, err)
	}
	return queue
}

// queued returns the admissions in the stream.
func (w *world) queued(t *rapid.T) []domain.Admission {
	var queue []domain.Admission
	for _, p := range w.entries(t) {
		queue = append(queue, p.Admissions...)
	}
	return queue
}

// deadAdmissions returns the admissions of the dead letters.
func (w *world) deadAdmissions(t *rapid.T) []domain.Admission {
	letters, err := w.back.DeadLetters(w.ctx, "", 500)
	require.NoError(t, err)
	dead := make([]domain.Admission, len(letters))
	for i, l := range letters {
		dead[i] = *l.Admission
	}
	return dead
}

// stocks returns the units left of all vouchers.
func (w *world) stocks(t *rapid.T) map[int64]int64 {
	rows, err := w.store.Pools()["read"].QueryContext(w.ctx, "SELECT voucher_id, stock FROM seckill_vouchers")
	require.NoError(t, err)
	defer func() { _ = rows.Close() }()
	stocks := map[int64]int64{}
	for rows.Next() {
		var id, stock int64
		require.NoError(t, rows.Scan(&id, &stock))
		stocks[id] = stock
	}
	require.NoError(t, rows.Err())
	return stocks
}

// replyLoser is a hook that executes scripts and loses their replies.
type replyLoser struct {
	client *redis.Client
	left   int // replies to lose
}

func (l *replyLoser) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *replyLoser) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *replyLoser) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		script := cmd.Name() == "evalsha" || cmd.Name() == "eval"
		executed := err == nil || errors.Is(err, redis.Nil)
		if l.left == 0 || !script || !executed {
			return err
		}
		l.left--
		cmd.SetErr(io.ErrUnexpectedEOF)
		return io.ErrUnexpectedEOF
	}
}

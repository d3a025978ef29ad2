package entry

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"seckill/internal/domain"
	"seckill/internal/kit/batch"
	"seckill/internal/kit/loop"
)

const (
	// roomTick is the interval at which a server reads its rooms and admits buyers.
	roomTick = 500 * time.Millisecond
	// roomTimeout bounds one access to the store or to the peers.
	roomTimeout = 2 * time.Second
	// roomPurge is the interval at which a server deletes old places.
	roomPurge = time.Hour
	// heartbeatEvery is the interval of the heartbeats of a room, by all servers together.
	heartbeatEvery = time.Second
	// roomIdle is how long a room without requests is kept in memory.
	roomIdle = 10 * time.Minute
)

// RoomStore stores waiting rooms. It is safe for concurrent use. Error of all methods: domain.ErrUnavailable.
type RoomStore interface {
	// JoinRoom returns the numbers of the places of users, and creates those that are missing or lost. A user has one
	// place in a room. It stores an event with the new numbers of users whose last pass did not buy: they wait behind
	// all others.
	JoinRoom(ctx context.Context, voucherID int64, requests []domain.PlaceRequest) ([]uint32, error)
	// LeaveRoom gives up places, as far as their users still have them, and stores an event with those that wait and
	// those whose passes stand for a unit. After a pass that did not buy, and after a place behind all others, the next
	// place of the user is behind all others.
	LeaveRoom(ctx context.Context, voucherID int64, places []domain.RoomPlace) error
	// StartRoom fixes seed and size of the lobby, unless that is done already or the sale has not begun.
	StartRoom(ctx context.Context, voucherID int64, seed [32]byte) error
	// Heartbeat records that a server can sell. If the last heartbeat is more than domain.RoomOutage ago, it stores an
	// event with the end of the outage.
	Heartbeat(ctx context.Context, voucherID int64) error
	// Admit stores an event. Error: domain.ErrInvalidState if another event has its sequence number.
	Admit(ctx context.Context, e domain.RoomEvent) error
	// Rooms returns the rooms that exist, by voucher, with what follows the cursors, and the time of the database. No
	// purchase is counted in Room.Bought whose unit Room.Stock still has.
	Rooms(ctx context.Context, after map[int64]domain.RoomCursor) ([]domain.Room, time.Time, error)
	// PurgePlaces deletes a batch of the places of sales that ended a week ago, and returns their number. 0 means that
	// there are no more.
	PurgePlaces(ctx context.Context) (int, error)
}

// Peers are the servers. It is safe for concurrent use.
type Peers interface {
	// Exchange stores what this server reports about a room for life, and returns the reports of all servers.
	Exchange(ctx context.Context, voucherID int64, report []byte, life time.Duration) ([][]byte, error)
}

// RoomsConfig configures Rooms.
type RoomsConfig struct {
	Store RoomStore
	Sales Sales
	Peers Peers
	// Stock returns how many units a sale may still sell if the database does not know all orders; nil if it does.
	Stock func(ctx context.Context, voucherID int64) (int64, error)
	// Sells returns why this server can place no orders, besides a database that fails; nil as far as it knows.
	Sells func(ctx context.Context) error
	// Changed is called when the state of the waiting buyers of a sale may have changed.
	Changed func(voucherID int64)
	// Admitted receives the number of buyers of every admission that this server makes.
	Admitted func(n int)
}

// Rooms are the waiting rooms of all sales. Places are stored in the database, and so is every admission, so that
// neither a restart nor the loss of Redis changes them; the order of a purchase counts against its pass in the same
// transaction. Redis only carries the present buyers between the servers; without it, each server admits its own present
// buyers. Rooms is safe for concurrent use.
type Rooms struct {
	cfg    RoomsConfig
	clock  clock
	joins  *batch.Batcher[domain.PlaceRequest, batch.Found[uint32]]
	leaves *batch.Batcher[domain.RoomPlace, error]
	// ticks lets one tick run at a time.
	ticks *semaphore.Weighted

	mu    sync.Mutex
	lines map[int64]*line
}

// NewRooms returns Rooms. Their Tasks admit buyers.
func NewRooms(cfg RoomsConfig) *Rooms {
	r := &Rooms{
		cfg:   cfg,
		lines: map[int64]*line{},
		ticks: semaphore.NewWeighted(1),
	}

	// The key of a call is the voucher, and a batch has one key.
	r.joins = batch.NewLookup(r.join, domain.BatchError)
	r.leaves = batch.New(batch.Config[domain.RoomPlace, error]{Run: r.leave, Fail: domain.BatchError})
	return r
}

func (r *Rooms) join(ctx context.Context, requests []domain.PlaceRequest) (map[domain.PlaceRequest]uint32, error) {
	numbers, err := r.cfg.Store.JoinRoom(ctx, requests[0].VoucherID, requests)
	joined := make(map[domain.PlaceRequest]uint32, len(numbers))
	for i, number := range numbers {
		joined[requests[i]] = number
	}

	return joined, err
}

func (r *Rooms) leave(ctx context.Context, places []domain.RoomPlace) []error {
	err := r.cfg.Store.LeaveRoom(ctx, places[0].VoucherID, places)
	return slices.Repeat([]error{err}, len(places))
}

func (r *Rooms) open(ctx context.Context, voucherID int64) (*line, error) {
	r.mu.Lock()
	l := r.lines[voucherID]
	if l == nil {
		l = newLine()
		r.lines[voucherID] = l
	}

	l.asked = time.Now()
	r.mu.Unlock()

	if l.ready.Load() {
		return l, nil
	}

	ctx, cancel := context.WithTimeout(ctx, roomTimeout)
	defer cancel()

	if r.ticks.Acquire(ctx, 1) != nil {
		return nil, domain.ErrUnavailable
	}
	defer r.ticks.Release(1)

	// Another caller may have read it.
	if !l.ready.Load() {
		if err := r.read(ctx); err != nil {
			return nil, err
		}
	}

	return l, nil
}

// Tasks read the rooms in use, admit buyers, and delete old places.
func (r *Rooms) Tasks() []loop.Task {
	return []loop.Task{
		loop.Every(roomTick, "run the waiting rooms", r.tick),
		loop.Every(roomPurge, "delete old places of waiting rooms", func(ctx context.Context) error {
			return loop.InBatches(ctx, r.cfg.Store.PurgePlaces)
		}),
	}
}

func (r *Rooms) tick(ctx context.Context) error {
	if err := r.ticks.Acquire(ctx, 1); err != nil {
		return err
	}
	defer r.ticks.Release(1)

	ctx, cancel := context.WithTimeout(ctx, roomTimeout)
	defer cancel()

	lines := r.inUse()
	r.exchangeAll(ctx, lines)
	if err := r.read(ctx); err != nil {
		return err
	}
	if len(lines) == 0 {
		return nil
	}

	sells := r.sells(ctx)
	errs := []error{sells}
	for id, l := range lines {
		errs = append(errs, r.admit(ctx, id, l, sells == nil))
	}

	return errors.Join(errs...)
}

// sells is Sells within half of the time, so that a Redis that hangs does not delay the start of a room.
func (r *Rooms) sells(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, roomTimeout/2)
	defer cancel()
	return r.cfg.Sells(ctx)
}

func (r *Rooms) inUse() map[int64]*line {
	r.mu.Lock()
	defer r.mu.Unlock()

	lines := make(map[int64]*line, len(r.lines))
	for id, l := range r.lines {
		switch {
		case time.Since(l.asked) > roomIdle && !l.holdsUnits():
			delete(r.lines, id)
		case l.ready.Load():
			lines[id] = l
		}
	}

	return lines
}

// read brings all lines up to date. The caller holds ticks.
func (r *Rooms) read(ctx context.Context) error {
	r.mu.Lock()
	lines := make(map[int64]*line, len(r.lines))
	after := make(map[int64]domain.RoomCursor, len(r.lines))
	for id, l := range r.lines {
		lines[id] = l
		after[id] = l.cursor()
	}
	r.mu.Unlock()

	for len(after) > 0 {
		requested := time.Now()
		rooms, now, err := r.cfg.Store.Rooms(ctx, after)
		if err != nil {
			return err
		}

		r.clock.set(now, requested)

		more := map[int64]domain.RoomCursor{}
		for i := range rooms {
			room := rooms[i]
			l := lines[room.VoucherID]
			if l.apply(room, now) {
				r.cfg.Changed(room.VoucherID)
			}
			if len(room.Events) > 0 {
				more[room.VoucherID] = l.cursor()
			}
		}

		after = more
	}

	for _, l := range lines {
		l.ready.Store(true)
	}

	return nil
}

// admit starts a room whose sale has begun. If this server sells, it records that and admits the buyers who are due.
func (r *Rooms) admit(ctx context.Context, voucherID int64, l *line, sells bool) error {
	v, err := r.cfg.Sales.Get(ctx, voucherID)
	if err != nil || v.Sale == nil {
		return err
	}

	now := r.clock.now()
	if view := (saleView{v.State(now), v.Sale.Entry}); view != l.sale {
		l.mu.Lock()
		l.sale = view
		l.mu.Unlock()
		r.cfg.Changed(voucherID)
	}

	// After the end passes go on to expire.
	open := v.CheckOpen(now) == nil
	ended := !v.Unpublished() && l.sale.state == domain.StateEnded
	if v.Sale.Entry.Mode != domain.EntryRoom || l.room.Joined == 0 || !open && !ended {
		return nil
	}

	if l.room.StartedAt.IsZero() {
		if ended {
			return nil
		}

		// Read never fails.
		var seed [32]byte
		_, _ = rand.Read(seed[:])
		return r.cfg.Store.StartRoom(ctx, voucherID, seed)
	}

	if !sells {
		return nil
	}

	// Without heartbeats, a pause costs no admitted buyer the turn.
	if v.Sale.Entry.Paused && !ended {
		l.pause()
		return nil
	}

	stock, err := r.stock(ctx, voucherID, l)
	if err != nil {
		return err
	}

	// A negative age is a clock that went back.
	if age := now.Sub(l.room.Heartbeat); age >= heartbeatEvery || age < 0 {
		if err := r.cfg.Store.Heartbeat(ctx, voucherID); err != nil {
			return err
		}
	}

	if ended {
		return nil
	}

	e := l.admitNext(v.Sale, stock, now)
	if len(e.Numbers) == 0 {
		return nil
	}

	err = r.cfg.Store.Admit(ctx, e)
	if err == nil {
		l.mu.Lock()
		l.applyEvent(&e)
		l.count()
		l.mu.Unlock()
		r.cfg.Admitted(len(e.Numbers))
		r.cfg.Changed(voucherID)
	}

	// Another server was faster.
	if errors.Is(err, domain.ErrInvalidState) {
		return nil
	}

	return err
}

func (r *Rooms) stock(ctx context.Context, voucherID int64, l *line) (int64, error) {
	if r.cfg.Stock == nil {
		return l.room.Stock, nil
	}

	left, err := r.cfg.Stock(ctx, voucherID)

	// There was no purchase since the data was lost.
	if errors.Is(err, domain.ErrGateCold) {
		return l.room.Stock, nil
	}
	return min(left, l.room.Stock), err
}

// exchangeAll is exchange for every line, at the same time: a Redis that hangs costs a tick the time of one exchange.
func (r *Rooms) exchangeAll(ctx context.Context, lines map[int64]*line) {
	var exchanging sync.WaitGroup
	for id, l := range lines {
		exchanging.Go(func() { l.keep(r.exchange(ctx, id, l)) })
	}
	exchanging.Wait()
}

// exchange returns the reports of all servers, or only that of this one while Redis is down.
func (r *Rooms) exchange(ctx context.Context, voucherID int64, l *line) []report {
	v, err := r.cfg.Sales.Get(ctx, voucherID)
	if err != nil || v.Sale == nil || v.Sale.Entry.Mode != domain.EntryRoom {
		return nil
	}

	// The order of the lobby is not known before the start.
	next := 0
	if !l.room.StartedAt.IsZero() {
		next = v.Sale.Entry.Rate * int(admitBurst/time.Second)
	}

	own := l.report(next, r.clock.now())

	// Numbers always have a JSON form.
	text, _ := json.Marshal(own)
	texts, err := r.cfg.Peers.Exchange(ctx, voucherID, text, time.Minute)
	if err != nil {
		return []report{own}
	}

	var reports []report
	for _, text := range texts {
		var rep report
		// Skip those of servers with another version.
		if json.Unmarshal(text, &rep) == nil {
			reports = append(reports, rep)
		}
	}

	return reports
}

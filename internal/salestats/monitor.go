package salestats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"seckill/internal/service"
)

const (
	// glancePause is between two looks at the stock of a sale that somebody watches, countPause between two at its orders.
	// Either is ten times as long as the last look took, if that is more: at five million orders a count takes seconds. A
	// glance that is slow is one that waited in a rush, and is wanted just then.
	glancePause = 700 * time.Millisecond
	glanceMost  = time.Second
	countPause  = time.Second
	countMost   = 20 * time.Minute // what the longest count comes to
	pauseFactor = 10
	// The looks are bounded by these.
	glanceTimeout = 2 * time.Second
	countTimeout  = 2 * time.Minute
	redisPatience = 300 * time.Millisecond
	// glanceStale is how old a look may be and still be shown while the next ones fail.
	glanceStale = 5 * time.Second
	// countPatience is how long somebody who has just come waits for the first count.
	countPatience = 2 * time.Second
	// watchedFor is how long after somebody asked about a sale the next one is expected.
	watchedFor = 3 * time.Second
	// levelFresh is how old a look may be and still tell the level of a second.
	levelFresh = 2500 * time.Millisecond
	// maxMonitored bounds the sales of which what was seen last is kept.
	maxMonitored = 64
)

// SaleCount is what the database says of all orders of a sale, at one moment.
type SaleCount struct {
	Books    service.Books
	ByStatus map[service.OrderStatus]int64
}

// MonitorStore reads what a Monitor shows. Errors: ErrNotFound, ErrUnavailable.
type MonitorStore interface {
	// SaleGlance reads a voucher, and the units that were added to its sale since. It is quick.
	SaleGlance(ctx context.Context, voucherID int64) (v service.Voucher, added int64, err error)
	// CountSale counts the orders of a sale, in one consistent read that may take as long as ctx.
	CountSale(ctx context.Context, voucherID int64) (SaleCount, error)
}

// QueueLag is how far the workers of the queue are behind, for all sales.
type QueueLag struct {
	Unsettled   int64
	Oldest      time.Duration
	DeadLetters int64
}

// MonitorConfig is what a Monitor needs.
type MonitorConfig struct {
	Store    MonitorStore
	Pulse    *Pulse
	Watchers *Watchers // of sales: woken by each beat
	Lane     string
	// Level and Lag are asked in the lane queue, and nil in the others. Error of Level: ErrGateCold.
	Level   func(ctx context.Context, voucherID int64) (service.GateLevel, error)
	Lag     func(ctx context.Context) (QueueLag, error)
	Publish func(message []byte) // tells the other processes; must not block
	Log     *slog.Logger
}

// Monitor shows sales as they are now. Whoever watches, the database is asked by one goroutine per sale and process, and
// while nobody watches it is not asked. It is safe for concurrent use.
type Monitor struct {
	cfg   MonitorConfig
	ctx   context.Context // of the looks
	stop  context.CancelFunc
	looks sync.WaitGroup

	mu    sync.Mutex
	over  bool
	sales map[int64]*monitored
}

// monitored is what was seen last of a sale.
type monitored struct {
	asked  time.Time
	glance looker[glance]
	count  looker[SaleCount]
}

type glance struct {
	voucher service.Voucher
	added   int64
	level   *service.GateLevel // nil: there is no gate, it is cold, or Redis does not answer
	short   int64              // units that are free in the database and that the gate does not have
	still   int                // looks in a row at which that was so, and neither of the two had changed
	lag     *QueueLag
}

// gate is how many units the gate may let in; nil if that is not known.
func (g *glance) gate() *int64 {
	if g.level == nil {
		return nil
	}
	return &g.level.Stock
}

// compare holds the gate against the database, knowing what was seen before. The two are not of one moment, and a unit
// that comes back does so in the database first: only what stays so while nothing happens is missing.
func (g *glance) compare(before *glance) {
	if g.level == nil || g.voucher.Sale == nil {
		return
	}
	stock := g.voucher.Sale.Stock
	g.short = max(0, stock-g.level.Queued-g.level.Stock)
	if g.short == 0 {
		return
	}
	g.still = 1
	if l := before.level; l != nil && before.voucher.Sale != nil && before.voucher.Sale.Stock == stock &&
		l.Stock == g.level.Stock && l.Queued == g.level.Queued && l.Version == g.level.Version {
		g.still += before.still
	}
}

// missingLooks is how many looks in a row find units missing at the gate before it is said.
const missingLooks = 4

// SaleStats is a sale as it is now.
type SaleStats struct {
	Voucher   service.Voucher
	At        time.Time
	Lane      string
	Instances int
	Added     int64
	Gate      *int64 // units that the gate may let in; nil: there is no gate, or it is not loaded
	Queue     *QueueLag

	Orders     map[service.OrderStatus]int64
	Invariants []service.Invariant
	CheckedAt  time.Time // when the orders were counted; zero: they were not

	Totals  PulseSecond
	Seconds []PulseSecond
}

// NewMonitor makes a Monitor, which works while Run does.
func NewMonitor(cfg MonitorConfig) *Monitor {
	m := &Monitor{cfg: cfg, sales: map[int64]*monitored{}}
	m.ctx, m.stop = context.WithCancel(context.Background())
	return m
}

// Run beats until ctx ends: at each full second it tells the others what was counted here, and half a second later the
// second is over and those who watch are woken. It returns when nothing is being looked at any more.
func (m *Monitor) Run(ctx context.Context) {
	const half = time.Second / 2
	for {
		now := time.Now()
		next := now.Truncate(half).Add(half)
		select {
		case <-ctx.Done():
			m.mu.Lock()
			m.over = true
			m.mu.Unlock()
			m.stop()
			m.looks.Wait()
			return
		case <-time.After(next.Sub(now)):
		}
		if next.Nanosecond() == 0 {
			if message := m.cfg.Pulse.Take(next); message != nil {
				m.cfg.Publish(message)
			}
			m.look()
			continue
		}
		m.cfg.Pulse.Close(next, m.level)
		m.cfg.Watchers.WakeAll()
	}
}

// look looks at the sales that somebody watches, and forgets those that nobody has watched for long.
func (m *Monitor) look() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, s := range m.sales {
		switch idle := time.Since(s.asked); {
		case idle < watchedFor:
			m.begin(id, s)
		case idle > time.Minute && s.idle():
			delete(m.sales, id)
		}
	}
}

// level is what is left of a sale, as far as it was looked at just now.
func (m *Monitor) level(voucherID int64) PulseLevel {
	m.mu.Lock()
	s := m.sales[voucherID]
	m.mu.Unlock()
	if s == nil {
		return PulseLevel{}
	}
	g, at, err := s.glance.last()
	if err != nil || time.Since(at) > levelFresh || g.voucher.Sale == nil {
		return PulseLevel{}
	}
	l := PulseLevel{Stock: &g.voucher.Sale.Stock, Gate: g.gate()}
	if g.lag != nil {
		l.Lag = &g.lag.Unsettled
	}
	return l
}

// Stats shows a sale, with the seconds after one. With a zero after it waits for a look at the sale if nobody has watched it
// until now; else it shows what was seen last, and sees to it that the next look comes.
// Errors: ErrNotFound, ErrInvalidState (a voucher without a sale), ErrUnavailable, ErrOverloaded.
func (m *Monitor) Stats(ctx context.Context, voucherID int64, after time.Time) (SaleStats, error) {
	s, glanced, counted := m.watch(voucherID)
	if s == nil {
		return SaleStats{}, service.ErrOverloaded
	}
	if after.IsZero() { // who is here already has seen what there was
		if err := await(ctx, glanced); err != nil {
			return SaleStats{}, err
		}
	}
	g, seenAt, err := s.glance.last()
	if err != nil && (g.voucher.ID == 0 || errors.Is(err, service.ErrNotFound)) {
		m.forget(voucherID, err)
		return SaleStats{}, err
	}
	if err != nil && time.Since(seenAt) > glanceStale { // what was so then is no news
		return SaleStats{}, err
	}
	if g.voucher.Sale == nil {
		return SaleStats{}, service.ErrInvalidState
	}
	if after.IsZero() {
		patient, cancel := context.WithTimeout(ctx, countPatience)
		defer cancel()
		_ = await(patient, counted) // what is not counted by then is said not to be
	}
	stats := SaleStats{
		Voucher: g.voucher, Lane: m.cfg.Lane, Instances: m.cfg.Pulse.Instances(), Added: g.added, Gate: g.gate(), Queue: g.lag,
	}
	stats.judge(s.count.last())
	if m.cfg.Level != nil {
		stats.judgeGate(&g)
	}
	now := time.Now()
	stats.At = service.Moment(now)
	stats.Totals, stats.Seconds = m.cfg.Pulse.Show(voucherID, after, now)
	return stats, nil
}

// watch notes that somebody asks about a sale, and begins the looks that are due. Of looks that should be waited for it
// returns what is closed at their end. nil: too many are watched, or the process stops.
func (m *Monitor) watch(voucherID int64) (s *monitored, glanced, counted <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s = m.sales[voucherID]
	if s == nil {
		if m.over || len(m.sales) >= maxMonitored && !m.makeRoom() {
			return nil, nil, nil
		}
		s = &monitored{}
		m.sales[voucherID] = s
	}
	if time.Since(s.asked) > watchedFor {
		s.glance.expire()
		s.count.expire()
	}
	s.asked = time.Now()
	m.begin(voucherID, s)
	return s, s.glance.missing(), s.count.missing()
}

// makeRoom forgets a sale that nobody watches any more. The caller holds the lock.
func (m *Monitor) makeRoom() bool {
	for id, s := range m.sales {
		if time.Since(s.asked) > watchedFor && s.idle() {
			delete(m.sales, id)
			return true
		}
	}
	return false
}

// idle says whether no look is under way, and no pause after one: whoever asks anew may look at once.
func (s *monitored) idle() bool { return s.glance.idle() && s.count.idle() }

// forget drops what is known of a voucher that is not there: it may be made in the next moment.
func (m *Monitor) forget(voucherID int64, err error) {
	if errors.Is(err, service.ErrNotFound) {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.sales, voucherID)
	}
}

// begin begins the looks that are due. The caller holds the lock.
func (m *Monitor) begin(voucherID int64, s *monitored) {
	s.count.begin(m, rhythm{countPause, countMost, countTimeout}, func(ctx context.Context) (SaleCount, error) {
		return m.cfg.Store.CountSale(ctx, voucherID)
	})
	s.glance.begin(m, rhythm{glancePause, glanceMost, glanceTimeout}, func(ctx context.Context) (g glance, err error) {
		if g.voucher, g.added, err = m.cfg.Store.SaleGlance(ctx, voucherID); err != nil {
			return g, err
		}
		ctx, cancel := context.WithTimeout(ctx, redisPatience) // what Redis does not tell now is not shown
		defer cancel()
		if m.cfg.Level != nil {
			if level, err := m.cfg.Level(ctx, voucherID); err == nil {
				g.level = &level
			}
		}
		if m.cfg.Lag != nil {
			if lag, err := m.cfg.Lag(ctx); err == nil {
				g.lag = &lag
			}
		}
		before, _, _ := s.glance.last()
		g.compare(&before)
		return g, nil
	})
}

// judgeGate says of I5 what the gate makes of it: what the database has for sale can be bought only if the gate lets
// somebody in.
func (s *SaleStats) judgeGate(g *glance) {
	for i := range s.Invariants {
		v := &s.Invariants[i]
		switch {
		case v.ID != "I5" || v.OK == nil || !*v.OK:
		case g.level == nil:
			v.OK, v.Detail = nil, "the gate is not loaded, or cannot be asked"
		case g.still >= missingLooks:
			v.OK, v.Detail = new(bool), fmt.Sprintf("%d units are free that the gate does not let in", g.short)
		}
	}
}

// judge fills in what was counted.
func (s *SaleStats) judge(c SaleCount, at time.Time, err error) {
	if !at.IsZero() && c.ByStatus != nil {
		s.Orders, s.CheckedAt = c.ByStatus, service.Moment(at)
	}
	for _, i := range c.Books.Invariants() {
		switch {
		case err != nil:
			i.OK, i.Detail = nil, "the database could not be asked"
		case s.CheckedAt.IsZero():
			i.OK, i.Detail = nil, "the orders are being counted"
		}
		s.Invariants = append(s.Invariants, i)
	}
}

// rhythm is how often something is looked at: after a look comes a pause of pauseFactor times its length, from pause to
// most. After one that failed it is pause: what was down is to be seen when it is up.
type rhythm struct{ pause, most, timeout time.Duration }

// looker looks at something, one look at a time, each followed by a pause, and keeps what was seen last.
type looker[T any] struct {
	mu    sync.Mutex
	seen  T         // by the last look that succeeded
	at    time.Time // of that look
	err   error     // of the last look
	fresh bool      // there was one since somebody began to watch
	next  time.Time // when the next may begin
	going chan struct{}
}

// begin starts a look if none is under way and the pause is over. The caller holds the monitor's lock.
func (l *looker[T]) begin(m *Monitor, r rhythm, look func(context.Context) (T, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.going == nil && !m.over && !time.Now().Before(l.next) {
		l.going = make(chan struct{})
		m.looks.Go(func() { l.look(m, r, look) })
	}
}

func (l *looker[T]) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.going == nil && !time.Now().Before(l.next)
}

// expire says that what was seen is old: nobody has looked for some time.
func (l *looker[T]) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fresh = false
}

// missing returns what is closed when something fresh was seen; nil: it was, or nobody looks.
func (l *looker[T]) missing() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fresh {
		return nil
	}
	return l.going
}

func (l *looker[T]) look(m *Monitor, r rhythm, look func(context.Context) (T, error)) {
	ctx, cancel := context.WithTimeout(m.ctx, r.timeout)
	defer cancel()
	start := time.Now()
	seen, err := look(ctx)
	took := time.Since(start)
	if err != nil && m.ctx.Err() == nil && !errors.Is(err, service.ErrNotFound) {
		m.cfg.Log.Debug("cannot look at a sale", "err", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	pause := r.pause
	if l.err, l.fresh = err, true; err == nil {
		l.seen, l.at = seen, start
		pause = min(max(pause, pauseFactor*took), r.most)
	}
	l.next = time.Now().Add(pause)
	close(l.going)
	l.going = nil
}

// await waits for a look; nil is none.
func await(ctx context.Context, going <-chan struct{}) error {
	if going == nil {
		return nil
	}
	select {
	case <-going:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", service.ErrUnavailable, ctx.Err())
	}
}

func (l *looker[T]) last() (seen T, at time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen, l.at, l.err
}

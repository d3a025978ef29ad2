package salestats

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
	"seckill/internal/ops/reconcile"
)

// stockSchedule and orderSchedule are the schedules of a watched sale. The stock's maxPause is short, because reads of
// the stock are slow in a rush, when they matter most. A count of five million orders takes seconds, and the maxPause
// of the orders is the pause after the longest count.
var (
	stockSchedule = pollSchedule{
		minPause: 700 * time.Millisecond,
		maxPause: time.Second,
		timeout:  2 * time.Second,
	}
	orderSchedule = pollSchedule{
		minPause: time.Second,
		maxPause: pollTimeFactor * countTimeout,
		timeout:  countTimeout,
	}
)

const (
	countTimeout = 2 * time.Minute
	redisTimeout = 300 * time.Millisecond
	// stockTimeout bounds the reads of the stock of all sales without viewers.
	stockTimeout = 300 * time.Millisecond
	// historyTimeout bounds a read or a report of the counters.
	historyTimeout = 2 * time.Second
	// staleAfter is the age up to which the last stock is shown while newer reads fail.
	staleAfter = 5 * time.Second
	// firstCountWait bounds the wait of a new subscriber for the first count of the orders.
	firstCountWait = 2 * time.Second
	// watchedFor is how long a sale counts as watched after a request for it.
	watchedFor = 3 * time.Second
	// levelMaxAge is the age up to which a stock is recorded as that of the current second.
	levelMaxAge = 2500 * time.Millisecond
	// maxMonitored bounds the sales with pollers.
	maxMonitored = 64
	// reportMissingAfter is the number of polls in a row that must find units missing at the gate before they are
	// reported.
	reportMissingAfter = 4
)

// SaleCount is the result of a count of all orders of a sale, at one moment.
type SaleCount struct {
	Totals   domain.SaleTotals
	ByStatus map[domain.OrderStatus]int64
	Figures  Figures
}

// MonitorStore reads the database for a Monitor. Errors: ErrNotFound, ErrUnavailable.
type MonitorStore interface {
	// Voucher reads a voucher. It is quick.
	Voucher(ctx context.Context, id int64) (domain.Voucher, error)
	// CountSale counts the orders of a sale in one consistent read, which may take as long as ctx.
	CountSale(ctx context.Context, voucherID int64) (SaleCount, error)
}

// QueueLag is how far the workers are behind, over all sales.
type QueueLag struct {
	// Users with unsettled admissions, or stream entries if those are more.
	Unsettled int64 `json:"lag"`
	// Age of the oldest stream entry in seconds; 0 if there is none.
	Oldest      float64 `json:"oldest_seconds"`
	DeadLetters int64   `json:"dead_letters"`
}

// history keeps what the processes report about the sales. RedisHistory is one.
type history interface {
	add(ctx context.Context, reports map[int64]*report, now time.Time) error
	read(ctx context.Context, voucherID int64, after, now time.Time) (reading, error)
	hour(ctx context.Context, voucherID int64, now time.Time) ([]Period, error)
}

// MonitorConfig configures a Monitor.
type MonitorConfig struct {
	Store MonitorStore
	// The counters of this process.
	Counters *Counters
	History  history
	// The subscribers of sales; notified once a second.
	Subscribers *Subscribers
	Lane        string
	// Stock returns the units left of a sale as its buyers see them, which costs little while there are any; may be nil.
	Stock func(ctx context.Context, voucherID int64) (int64, error)
	// Level and Lag are nil in every lane but queue. Error of Level: ErrGateCold.
	Level func(ctx context.Context, voucherID int64) (domain.GateLevel, error)
	Lag   func(ctx context.Context) (QueueLag, error)
	Log   *slog.Logger
}

// Monitor provides the current statistics of sales, with the counts of all processes. For each watched sale one goroutine per process polls the database,
// whatever the number of subscribers. Sales that are not watched are not polled. It is safe for concurrent use.
type Monitor struct {
	cfg MonitorConfig
	// The ctx of the polls.
	ctx   context.Context
	stop  context.CancelFunc
	polls sync.WaitGroup

	// The sales that the last report counted. Only report uses it.
	counted []int64

	mu      sync.Mutex
	stopped bool
	sales   map[int64]*monitoredSale
}

// monitoredSale contains the pollers of a sale.
type monitoredSale struct {
	// The last call of Stats.
	requested time.Time
	stock     poller[stockSnapshot]
	orders    poller[SaleCount]
}

// stockSnapshot is the result of a poll of the stock.
type stockSnapshot struct {
	voucher domain.Voucher
	// Nil: there is no gate, it is cold, or Redis does not answer.
	level *domain.GateLevel
	// Nil: there is no queue, or Redis does not answer.
	lag *QueueLag

	// The units of gate and database.
	units reconcile.Comparison
	// The number of polls in a row that found units missing at the gate, without a change on either side.
	missingPolls int
}

// gate returns the units that the gate may admit, or nil if that is unknown.
func (s *stockSnapshot) gate() *int64 {
	if s.level == nil {
		return nil
	}
	return &s.level.Stock
}

// compareGate compares the gate with the database. The two reads are not simultaneous, and a returned unit reaches the
// database first, so units count as missing only if consecutive polls find the same state.
func (s *stockSnapshot) compareGate(before *stockSnapshot) {
	if s.level == nil || s.voucher.Sale == nil {
		return
	}

	stock := s.voucher.Sale.Stock
	s.units = reconcile.CompareStock(*s.level, stock)
	if !s.units.Blocks() {
		return
	}

	s.missingPolls = 1
	l := before.level
	if l != nil && before.voucher.Sale != nil && before.voucher.Sale.Stock == stock &&
		l.Stock == s.level.Stock && l.Queued == s.level.Queued && l.Version == s.level.Version {
		s.missingPolls += before.missingPolls
	}
}

// SaleStats are the statistics of a sale at one moment.
type SaleStats struct {
	Voucher domain.Voucher `json:"-"`
	At      time.Time      `json:"at"`
	Lane    string         `json:"lane"`
	// Processes that have reported lately, including this one.
	Instances int   `json:"instances"`
	Stock     Stock `json:"stock"`
	// Nil: there is no queue, or Redis does not answer.
	Queue *QueueLag `json:"queue"`

	// When the orders were counted; nil: not yet.
	CheckedAt *time.Time `json:"checked_at"`
	// Empty without a count.
	Orders map[domain.OrderStatus]int64 `json:"orders"`
	// Nil without a count.
	Figures    *Figures         `json:"figures"`
	Invariants []domain.Verdict `json:"invariants"`

	Totals  Totals   `json:"totals"`
	Seconds []Second `json:"seconds"`
	// The last hour, oldest first; periods in which nothing was reported are missing. See Monitor.Hour.
	Hour []Period `json:"hour,omitempty"`
}

// Stock are the units of a sale.
type Stock struct {
	Initial int64 `json:"initial"`
	// Since the sale was published.
	Added int64 `json:"added"`
	// Left in the database.
	Database int64 `json:"database"`
	// That the gate may admit; nil: there is no gate, it is cold, or Redis does not answer.
	Gate *int64 `json:"gate"`
}

// NewMonitor returns a Monitor, which works while Run does.
func NewMonitor(cfg MonitorConfig) *Monitor {
	m := &Monitor{cfg: cfg, sales: map[int64]*monitoredSale{}}
	m.ctx, m.stop = context.WithCancel(context.Background())
	return m
}

// Run works until ctx ends, and returns when no poll runs. Once a second it reports the counts of this process and, at
// another time of the second, starts the polls that are due and notifies the subscribers. So a delay of either does not
// move counts to another second.
func (m *Monitor) Run(ctx context.Context) {
	var reports sync.WaitGroup
	reports.Go(func() {
		for waitForPart(ctx, reportAt) {
			m.report(ctx)
		}
	})

	for waitForPart(ctx, notifyAt) {
		m.pollWatched()
		m.cfg.Subscribers.NotifyAll()
	}

	m.mu.Lock()
	m.stopped = true
	m.mu.Unlock()

	m.stop()
	m.polls.Wait()
	reports.Wait()
}

// When in a second something happens.
const (
	notifyAt = time.Second / 4
	reportAt = 3 * time.Second / 4
)

// waitForPart waits until the next second has the given part. It reports whether ctx has not ended before.
func waitForPart(ctx context.Context, part time.Duration) bool {
	now := time.Now()
	next := now.Truncate(time.Second).Add(part)
	if !next.After(now) {
		next = next.Add(time.Second)
	}
	return loop.Sleep(ctx, next.Sub(now)) == nil
}

// report reports what this process has counted since the last report, and what is left of the watched sales. What cannot
// be stored is not reported again, since it may be stored already.
func (m *Monitor) report(ctx context.Context) {
	now := time.Now()
	reports := map[int64]*report{}

	// Once more, for the stock after the last purchase.
	for _, id := range m.counted {
		reports[id] = &report{}
	}
	m.counted = m.counted[:0]

	for id, c := range m.cfg.Counters.take(now) {
		reports[id] = &report{counts: *c}
		m.counted = append(m.counted, id)
	}

	for id, level := range m.levels() {
		if reports[id] == nil {
			reports[id] = &report{}
		}
		reports[id].level = level
	}

	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()

	m.addStocks(ctx, reports)

	if err := m.cfg.History.add(ctx, reports, now); err != nil {
		m.cfg.Log.DebugContext(ctx, "cannot report sale statistics", slog.Any("err", err))
	}
}

// addStocks adds the stock of the sales without viewers, which purchases make this process read anyway.
func (m *Monitor) addStocks(ctx context.Context, reports map[int64]*report) {
	if m.cfg.Stock == nil {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, stockTimeout)
	defer cancel()

	for id, r := range reports {
		if r.level.Stock != nil {
			continue
		}
		if stock, err := m.cfg.Stock(ctx, id); err == nil {
			r.level.Stock = &stock
		}
	}
}

// pollWatched starts the polls of the watched sales that are due, and drops sales that were not watched for a minute.
func (m *Monitor) pollWatched() {
	m.mu.Lock()
	defer m.mu.Unlock()

	for id, s := range m.sales {
		unused := time.Since(s.requested)
		switch {
		case unused < watchedFor:
			m.startPolls(id, s)
		case unused > time.Minute && s.idle():
			delete(m.sales, id)
		}
	}
}

// levels returns what is left of the watched sales, as far as a recent poll read it.
func (m *Monitor) levels() map[int64]Level {
	m.mu.Lock()
	defer m.mu.Unlock()

	levels := map[int64]Level{}
	for id, s := range m.sales {
		stock, at, err := s.stock.last()
		if err != nil || time.Since(at) > levelMaxAge || stock.voucher.Sale == nil {
			continue
		}

		l := Level{Stock: &stock.voucher.Sale.Stock, Gate: stock.gate()}
		if stock.lag != nil {
			l.Lag = &stock.lag.Unsettled
		}

		levels[id] = l
	}

	return levels
}

// Stats returns the statistics of a sale, with the seconds later than after, and marks the sale as watched. If after is
// zero, it waits for a new poll unless the sale was watched already. Otherwise it returns the results of the last
// polls.
// Errors: ErrNotFound, ErrInvalidState (a voucher without a sale), ErrUnavailable, ErrOverloaded (too many watched
// sales, or the process stops).
func (m *Monitor) Stats(ctx context.Context, voucherID int64, after time.Time) (SaleStats, error) {
	s, stockRead, ordersCounted := m.watch(voucherID)
	if s == nil {
		return SaleStats{}, domain.ErrOverloaded
	}

	if after.IsZero() {
		if err := await(ctx, stockRead); err != nil {
			return SaleStats{}, err
		}
	}

	stock, at, err := s.stock.last()
	if err != nil && (stock.voucher.ID == 0 || errors.Is(err, domain.ErrNotFound)) {
		m.drop(voucherID, err)
		return SaleStats{}, err
	}

	if err != nil && time.Since(at) > staleAfter {
		return SaleStats{}, err
	}
	if stock.voucher.Sale == nil {
		return SaleStats{}, domain.ErrInvalidState
	}

	if after.IsZero() {
		waitCtx, cancel := context.WithTimeout(ctx, firstCountWait)
		defer cancel()
		// Without a count the statistics report that it runs.
		_ = await(waitCtx, ordersCounted)
	}

	stats := SaleStats{
		Voucher: stock.voucher,
		Lane:    m.cfg.Lane,
		Stock: Stock{
			Initial:  stock.voucher.Sale.InitialStock,
			Added:    stock.voucher.Sale.Added,
			Database: stock.voucher.Sale.Stock,
			Gate:     stock.gate(),
		},
		Queue:   stock.lag,
		Orders:  map[domain.OrderStatus]int64{},
		Seconds: []Second{},
	}

	stats.checkOrders(s.orders.last())
	if m.cfg.Level != nil {
		stats.checkGate(&stock)
	}

	m.readHistory(ctx, &stats, after)
	return stats, nil
}

// readHistory fills in what the processes have reported. While Redis does not answer, that is nothing.
func (m *Monitor) readHistory(ctx context.Context, s *SaleStats, after time.Time) {
	now := time.Now()
	s.At = domain.Moment(now)

	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()

	r, err := m.cfg.History.read(ctx, s.Voucher.ID, after, now)
	if err != nil {
		m.cfg.Log.DebugContext(ctx, "cannot read the counters of a sale", slog.Any("err", err))
		r.total = Totals{s.At, new(counts).named()}
	}

	s.Instances = max(r.instances, 1)
	s.Totals = r.total
	s.Seconds = append(s.Seconds, r.seconds...)
}

// Hour returns the periods of the last hour of a sale, which are as many keys in Redis. While Redis does not answer, there
// are none.
func (m *Monitor) Hour(ctx context.Context, voucherID int64) []Period {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()

	hour, err := m.cfg.History.hour(ctx, voucherID, time.Now())
	if err != nil {
		m.cfg.Log.DebugContext(ctx, "cannot read the last hour of a sale", slog.Any("err", err))
	}

	return hour
}

// watch marks a sale as watched and starts the polls that are due. It returns the channels on which to wait for polls
// of a sale that was not watched before, else nil channels. It returns a nil sale if too many are watched or the
// process stops.
func (m *Monitor) watch(voucherID int64) (s *monitoredSale, stockRead, ordersCounted <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()

	s = m.sales[voucherID]
	if s == nil {
		if m.stopped || len(m.sales) >= maxMonitored && !m.evict() {
			return nil, nil, nil
		}
		s = &monitoredSale{}
		m.sales[voucherID] = s
	}

	if time.Since(s.requested) > watchedFor {
		s.stock.expire()
		s.orders.expire()
	}

	s.requested = time.Now()
	m.startPolls(voucherID, s)
	return s, s.stock.pending(), s.orders.pending()
}

// evict drops a sale that is no longer watched. It returns false if there is none. The caller holds the lock.
func (m *Monitor) evict() bool {
	for id, s := range m.sales {
		if time.Since(s.requested) > watchedFor && s.idle() {
			delete(m.sales, id)
			return true
		}
	}
	return false
}

// idle reports whether the sale can be dropped: no poll runs, and a new poller would not poll earlier than the present
// one.
func (s *monitoredSale) idle() bool { return s.stock.idle() && s.orders.idle() }

// drop removes the sale of a voucher that does not exist, because it may be created at any time.
func (m *Monitor) drop(voucherID int64, err error) {
	if errors.Is(err, domain.ErrNotFound) {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.sales, voucherID)
	}
}

// startPolls starts the polls that are due. The caller holds the lock.
func (m *Monitor) startPolls(voucherID int64, s *monitoredSale) {
	s.orders.start(m, orderSchedule, func(ctx context.Context) (SaleCount, error) {
		return m.cfg.Store.CountSale(ctx, voucherID)
	})
	s.stock.start(m, stockSchedule, func(ctx context.Context) (stockSnapshot, error) {
		before, _, _ := s.stock.last()
		return m.readStock(ctx, voucherID, &before)
	})
}

// readStock reads the stock in the database and at the gate. Without an answer of Redis the snapshot has no level or
// lag.
func (m *Monitor) readStock(ctx context.Context, voucherID int64, before *stockSnapshot) (stockSnapshot, error) {
	var s stockSnapshot
	var err error
	if s.voucher, err = m.cfg.Store.Voucher(ctx, voucherID); err != nil {
		return s, err
	}

	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()

	if m.cfg.Level != nil {
		if level, err := m.cfg.Level(ctx, voucherID); err == nil {
			s.level = &level
		}
	}

	if m.cfg.Lag != nil {
		if lag, err := m.cfg.Lag(ctx); err == nil {
			s.lag = &lag
		}
	}

	s.compareGate(before)
	return s, nil
}

// checkOrders fills in the counted orders and the invariants.
func (s *SaleStats) checkOrders(c SaleCount, at time.Time, err error) {
	if !at.IsZero() && c.ByStatus != nil {
		for status := domain.OrderPendingPayment; status <= domain.OrderRefunded; status++ {
			s.Orders[status] = c.ByStatus[status]
		}

		at = domain.Moment(at)
		s.CheckedAt = &at
		s.Figures = &c.Figures
	}

	for _, i := range c.Totals.Invariants() {
		switch {
		case err != nil:
			i.OK = nil
			i.Detail = "the database could not be read"
		case s.CheckedAt == nil:
			i.OK = nil
			i.Detail = "the orders are being counted"
		}

		s.Invariants = append(s.Invariants, i)
	}
}

// checkGate adds the gate to I5: in lane queue a free unit can be bought only if the gate has it too.
func (s *SaleStats) checkGate(stock *stockSnapshot) {
	for i := range s.Invariants {
		v := &s.Invariants[i]
		switch {
		case v.ID != "I5" || v.OK == nil || !*v.OK:
		case stock.level == nil:
			v.OK = nil
			v.Detail = "the gate is not loaded, or Redis does not answer"
		case stock.missingPolls >= reportMissingAfter:
			v.OK = new(bool)
			v.Detail = stock.units.String()
		}
	}
}

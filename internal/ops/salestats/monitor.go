package salestats

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/cache"
	"seckill/internal/kit/loop"
)

const (
	// stockFresh is short, because reads of the stock are slow in a rush, when they matter most.
	stockFresh       = 700 * time.Millisecond
	stockReadTimeout = 2 * time.Second
	// A count of five million orders takes seconds: between two counts is at least countPause times the duration of one.
	countFresh   = time.Second
	countPause   = 10
	countTimeout = 2 * time.Minute
	// countStale is the age from which a request waits for the next count.
	countStale   = 3 * time.Second
	redisTimeout = 300 * time.Millisecond
	// stockTimeout bounds the reads of the stock of all sales without viewers.
	stockTimeout = 300 * time.Millisecond
	// historyTimeout bounds a read or a report of the counters.
	historyTimeout = 2 * time.Second
	// staleAfter is the age up to which the last stock is shown while newer reads fail.
	staleAfter = 5 * time.Second
	// countWait bounds that wait.
	countWait = 2 * time.Second
	// keptIdle is how long the last readings of a sale are kept after a request for it.
	keptIdle = time.Minute
	// levelMaxAge is the age up to which a stock is recorded as that of the current second.
	levelMaxAge = 2500 * time.Millisecond
	// maxMonitored bounds the sales whose readings are kept.
	maxMonitored = 128
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
	// Gate returns the units that the gate may admit. Gate and Lag are nil in every lane but queue.
	Gate func(ctx context.Context, voucherID int64) (int64, error)
	Lag  func(ctx context.Context) (domain.QueueLag, error)
	Log  *slog.Logger
}

// Monitor provides the current statistics of sales, with the counts of all processes. Whatever the number of their
// subscribers, a process reads each sale once at a time, and only while there are requests for it. It is safe for concurrent
// use.
type Monitor struct {
	cfg MonitorConfig
	// The sales that the last report counted. Only report uses it.
	counted []int64
	sales   *cache.Cache[int64, *monitoredSale]
}

// monitoredSale contains the readings of a sale.
type monitoredSale struct {
	stock  cache.Refreshed[stockSnapshot]
	orders cache.Refreshed[SaleCount]
}

// stockSnapshot is a reading of the stock.
type stockSnapshot struct {
	voucher domain.Voucher
	// Units in the gate; nil: there is none, it is cold, or Redis does not answer.
	gate *int64
	// Nil: there is no queue, or Redis does not answer.
	lag *domain.QueueLag
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
	Queue *domain.QueueLag `json:"queue"`

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
	return &Monitor{
		cfg:   cfg,
		sales: cache.New[int64](cache.Options[*monitoredSale]{MaxEntries: maxMonitored, IdleTTL: keptIdle}),
	}
}

// Run works until ctx ends. Once a second it reports the counts of this process and, at another time of the second,
// notifies the subscribers. So a delay of either does not move counts to another second.
func (m *Monitor) Run(ctx context.Context) {
	var reports sync.WaitGroup
	reports.Go(func() {
		for waitForPart(ctx, reportAt) {
			m.report(ctx)
		}
	})

	for waitForPart(ctx, notifyAt) {
		m.cfg.Subscribers.NotifyAll()
	}

	reports.Wait()
	m.sales.Close()
}

// When in a second something happens.
const (
	notifyAt = time.Second / 4
	reportAt = 3 * time.Second / 4
)

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
	reports := map[int64]*report{}

	// Once more, for the stock after the last purchase.
	for _, id := range m.counted {
		reports[id] = &report{}
	}
	m.counted = m.counted[:0]

	for id, c := range m.cfg.Counters.take(time.Now()) {
		reports[id] = &report{counts: c}
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

	if err := m.cfg.History.add(ctx, reports, time.Now()); err != nil {
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

func (m *Monitor) levels() map[int64]Level {
	levels := map[int64]Level{}
	for id, s := range m.sales.All() {
		stock := s.stock.Last()
		if stock == nil || time.Since(stock.Began) > levelMaxAge || stock.Value.voucher.Sale == nil {
			continue
		}

		l := Level{Stock: &stock.Value.voucher.Sale.Stock, Gate: stock.Value.gate}
		if stock.Value.lag != nil {
			l.Lag = &stock.Value.lag.Unsettled
		}

		levels[id] = l
	}

	return levels
}

// Stats returns the statistics of a sale, with the seconds later than after. If the last readings are old it waits for new
// ones; for a count of the orders only a short time, and only if after is zero.
// Errors: ErrNotFound, ErrInvalidState (a voucher without a sale), ErrUnavailable.
func (m *Monitor) Stats(ctx context.Context, voucherID int64, after time.Time) (SaleStats, error) {
	s, err := m.sales.Load(ctx, voucherID, func(context.Context) (*monitoredSale, error) { return m.newSale(voucherID), nil })
	if err != nil {
		return SaleStats{}, err
	}

	stock, err := s.stock.Get(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return SaleStats{}, fmt.Errorf("%w: %w", domain.ErrUnavailable, err)
	case err != nil:
		return SaleStats{}, err
	case stock.voucher.Sale == nil:
		return SaleStats{}, domain.ErrInvalidState
	}

	stats := SaleStats{
		Voucher: stock.voucher,
		Lane:    m.cfg.Lane,
		Stock: Stock{
			Initial:  stock.voucher.Sale.InitialStock,
			Added:    stock.voucher.Sale.Added,
			Database: stock.voucher.Sale.Stock,
			Gate:     stock.gate,
		},
		Queue:   stock.lag,
		Orders:  map[domain.OrderStatus]int64{},
		Seconds: []Second{},
	}

	m.readOrders(ctx, &stats, s, after.IsZero())
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
		r.total = Totals{s.At, parseCounts(nil)}
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

func (m *Monitor) newSale(voucherID int64) *monitoredSale {
	s := &monitoredSale{}
	s.stock.Fresh = stockFresh
	s.stock.Stale = staleAfter
	s.stock.Timeout = stockReadTimeout
	s.stock.Read = func(ctx context.Context) (stockSnapshot, error) { return m.readStock(ctx, voucherID) }

	s.orders.Fresh = countFresh
	s.orders.Pause = countPause
	s.orders.Stale = countStale
	s.orders.Timeout = countTimeout
	s.orders.Read = func(ctx context.Context) (SaleCount, error) { return m.cfg.Store.CountSale(ctx, voucherID) }

	return s
}

// readStock reads the stock in the database and at the gate. Without an answer of Redis the snapshot has neither units of
// the gate nor a lag.
func (m *Monitor) readStock(ctx context.Context, voucherID int64) (stockSnapshot, error) {
	var s stockSnapshot
	var err error
	if s.voucher, err = m.cfg.Store.Voucher(ctx, voucherID); err != nil {
		return s, err
	}

	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()

	if m.cfg.Gate != nil {
		if units, err := m.cfg.Gate(ctx, voucherID); err == nil {
			s.gate = &units
		}
	}

	if m.cfg.Lag != nil {
		if lag, err := m.cfg.Lag(ctx); err == nil {
			s.lag = &lag
		}
	}

	return s, nil
}

func (m *Monitor) readOrders(ctx context.Context, stats *SaleStats, s *monitoredSale, wait bool) {
	var most time.Duration
	if wait {
		most = countWait
	}

	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()

	unknown := "the orders are being counted"
	if _, err := s.orders.Get(waiting); err != nil && waiting.Err() == nil {
		unknown = "the database could not be read"
		m.cfg.Log.DebugContext(ctx, "cannot count the orders of a sale", slog.Any("err", err))
	}

	// After an error, or without the time to wait, the last count.
	var count SaleCount
	if reading := s.orders.Last(); reading != nil {
		count = reading.Value
		unknown = ""

		at := domain.Moment(reading.Began)
		stats.CheckedAt = &at
		stats.Figures = &count.Figures
		for status := domain.OrderPendingPayment; status <= domain.OrderRefunded; status++ {
			stats.Orders[status] = count.ByStatus[status]
		}
	}

	for _, i := range count.Totals.Invariants() {
		if unknown != "" {
			i.OK = nil
			i.Detail = unknown
		}
		stats.Invariants = append(stats.Invariants, i)
	}
}

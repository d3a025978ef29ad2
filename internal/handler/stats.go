package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/ops/salestats"
	"seckill/internal/sale/entry"
)

type statsHandler struct {
	auth        *auth.Service
	monitor     *salestats.Monitor
	subscribers *salestats.Subscribers
	vouchers    *voucherHandler
	entries     *entry.Service
}

type statsOut struct {
	Voucher   voucherOut       `json:"voucher"`
	At        time.Time        `json:"at"`
	Lane      string           `json:"lane"`
	Instances int              `json:"instances"`
	Stock     statsStock       `json:"stock"`
	Orders    map[string]int64 `json:"orders"`
	Figures   *statsFigures    `json:"figures"`
	Queue     *statsQueue      `json:"queue"`
	// Only of a sale with a waiting room.
	Room       *statsRoom    `json:"room,omitempty"`
	Invariants []verdictOut  `json:"invariants"`
	CheckedAt  *time.Time    `json:"checked_at"`
	Totals     statsTotals   `json:"totals"`
	Seconds    []statsSecond `json:"seconds"`
}

type statsStock struct {
	Initial  int64  `json:"initial"`
	Added    int64  `json:"added"`
	Database int64  `json:"database"`
	Gate     *int64 `json:"gate"`
}

// statsFigures are the results of a sale. Amounts are in cents.
type statsFigures struct {
	Orders         int64 `json:"orders"`
	Paid           int64 `json:"paid"`
	Unpaid         int64 `json:"unpaid"`
	Refunded       int64 `json:"refunded"`
	Revenue        int64 `json:"revenue"`
	RefundedAmount int64 `json:"refunded_amount"`
	// Paid orders per order.
	Conversion float64 `json:"conversion"`

	// Absent in streams.
	Curve []statsSold `json:"curve,omitempty"`
}

type statsSold struct {
	At      time.Time `json:"at"`
	Orders  int64     `json:"orders"`
	Revenue int64     `json:"revenue"`
}

func newStatsFigures(f *salestats.Figures) *statsFigures {
	out := &statsFigures{
		Orders:         f.Orders,
		Paid:           f.Paid,
		Unpaid:         f.Unpaid,
		Refunded:       f.Refunded,
		Revenue:        f.Revenue,
		RefundedAmount: f.RefundedAmount,
	}

	if f.Orders > 0 {
		out.Conversion = math.Round(float64(f.Paid)/float64(f.Orders)*1e4) / 1e4
	}

	for _, s := range f.Curve {
		out.Curve = append(out.Curve, statsSold(s))
	}

	return out
}

type statsQueue struct {
	Lag         int64   `json:"lag"`
	Oldest      float64 `json:"oldest_seconds"`
	DeadLetters int64   `json:"dead_letters"`
}

type statsRoom struct {
	Lobby       int  `json:"lobby"`
	Waiting     int  `json:"waiting"`
	Present     int  `json:"present"`
	Admitted    int  `json:"admitted"`
	Outstanding int  `json:"outstanding"`
	Used        int  `json:"used"`
	Left        int  `json:"left"`
	Rate        int  `json:"rate"`
	Paused      bool `json:"paused"`
}

// statsCounts are the counters of a second or of the whole sale.
type statsCounts struct {
	Outcomes  map[string]uint64 `json:"outcomes"`
	Settled   map[string]uint64 `json:"settled"`
	Batches   uint64            `json:"batches"`
	BatchRows uint64            `json:"batch_rows"`
	P50       float64           `json:"p50_ms"`
	P99       float64           `json:"p99_ms"`
}

type statsTotals struct {
	Since time.Time `json:"since"`
	statsCounts
}

type statsSecond struct {
	At time.Time `json:"at"`
	statsCounts

	Stock *int64 `json:"stock"`
	Gate  *int64 `json:"gate"`
	Lag   *int64 `json:"lag"`
}

func newStatsCounts(s *salestats.Second) statsCounts {
	c := statsCounts{
		Outcomes:  s.Answers,
		Settled:   s.Settled,
		Batches:   s.Batches,
		BatchRows: s.Rows,
		P50:       milliseconds(s.P50),
		P99:       milliseconds(s.P99),
	}

	// {} rather than null.
	if c.Outcomes == nil {
		c.Outcomes = map[string]uint64{}
	}
	if c.Settled == nil {
		c.Settled = map[string]uint64{}
	}

	return c
}

func (h *statsHandler) out(s *salestats.SaleStats, room *entry.Stats) statsOut {
	sale := s.Voucher.Sale
	out := statsOut{
		Voucher:   h.vouchers.out(&s.Voucher),
		At:        s.At,
		Lane:      s.Lane,
		Instances: s.Instances,
		Stock: statsStock{
			Initial:  sale.InitialStock,
			Added:    s.Added,
			Database: sale.Stock,
			Gate:     s.Gate,
		},
		Orders:     map[string]int64{},
		Invariants: newVerdictsOut(s.Invariants),
		Totals:     statsTotals{s.Totals.At, newStatsCounts(&s.Totals)},
		Seconds:    make([]statsSecond, len(s.Seconds)),
	}

	if q := s.Queue; q != nil {
		out.Queue = &statsQueue{q.Unsettled, math.Round(q.Oldest.Seconds()*1000) / 1000, q.DeadLetters}
	}

	if room != nil {
		out.Room = &statsRoom{
			room.Lobby, room.Waiting, room.Present, room.Admitted, room.Outstanding, room.Used, room.Left, sale.Entry.Rate, sale.Entry.Paused,
		}
	}

	if !s.CheckedAt.IsZero() {
		out.CheckedAt = &s.CheckedAt
		out.Figures = newStatsFigures(&s.Figures)
		for status := domain.OrderPendingPayment; status <= domain.OrderRefunded; status++ {
			out.Orders[status.String()] = s.Orders[status]
		}
	}

	for i := range s.Seconds {
		second := &s.Seconds[i]
		out.Seconds[i] = statsSecond{second.At, newStatsCounts(second), second.Level.Stock, second.Level.Gate, second.Level.Lag}
	}

	return out
}

func (h *statsHandler) show(c *gin.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	out, err := h.read(c.Request.Context(), id, time.Time{})
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, out)
}

// read returns the statistics of a sale, with the seconds later than after.
func (h *statsHandler) read(ctx context.Context, id int64, after time.Time) (statsOut, error) {
	s, err := h.monitor.Stats(ctx, id, after)
	switch {
	case err != nil:
		return statsOut{}, err
	case s.Voucher.Sale.Entry.Mode != domain.EntryRoom:
		return h.out(&s, nil), nil
	}
	room, err := h.entries.Stats(ctx, id)
	return h.out(&s, &room), err
}

// events streams the statistics of a sale, one event per second. The first event has all known seconds, so a client
// that reconnects misses none; each later event has the new seconds only.
func (h *statsHandler) events(c *gin.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}

	sub, err := h.subscribers.Subscribe(caller(c).UserID, id)
	if err != nil {
		return err
	}

	s := &statsStream{
		h:     h,
		sub:   sub,
		id:    id,
		admin: caller(c),
	}

	streaming := false
	defer func() {
		if !streaming {
			h.subscribers.Unsubscribe(sub)
		}
	}()

	stats, err := s.load()
	if err != nil {
		return err
	}

	if s.stream, err = openStream(c, h.auth); err != nil {
		return err
	}

	streaming = true
	go s.run(stats)
	return nil
}

type statsStream struct {
	*stream

	h     *statsHandler
	sub   *salestats.Subscription
	id    int64
	admin auth.Identity
	// The last second in an event.
	sent time.Time
	// The last event's id.
	event int64
}

// load returns the statistics with the seconds that are not sent yet. Further errors: ErrForbidden and
// ErrUnauthenticated if the user has lost the role of the request, or no longer exists.
func (s *statsStream) load() (statsOut, error) {
	return readDetached(func(ctx context.Context) (statsOut, error) {
		stats, err := s.h.read(ctx, s.id, s.sent)
		if err != nil {
			return statsOut{}, err
		}

		if stats.Figures != nil {
			stats.Figures.Curve = nil
		}

		role, err := s.h.auth.CurrentRole(ctx, s.admin)
		if err == nil && !role.May(domain.MayRead) {
			err = domain.ErrForbidden
		}

		return stats, err
	})
}

// run writes an event on each tick of the monitor until the client disconnects, the user loses the role, or the process
// stops. While reads fail, it writes heartbeats only; the next successful read returns the missed seconds.
func (s *statsStream) run(stats statsOut) {
	defer s.h.subscribers.Unsubscribe(s.sub)
	defer s.start()()

	for s.send(&stats) {
		for {
			if !s.wait(s.sub, nil) {
				return
			}

			var err error
			if stats, err = s.load(); err == nil {
				break
			}
			if errors.Is(err, domain.ErrForbidden) || errors.Is(err, domain.ErrUnauthenticated) {
				return
			}
		}
	}
}

// send writes an event whose id is the Unix time of its last second. It returns false if the write fails.
func (s *statsStream) send(stats *statsOut) bool {
	// A second that is certainly over.
	at := stats.At.Unix() - 2
	if n := len(stats.Seconds); n > 0 {
		s.sent = stats.Seconds[n-1].At
		at = s.sent.Unix()
	}

	// Ids grow even if the clock is set back.
	s.event = max(s.event+1, at)
	data, err := json.Marshal(stats)
	// Cannot happen for this type.
	if err != nil {
		return false
	}

	b := bytes.NewBufferString("event: stats\nid: " + strconv.FormatInt(s.event, 10) + "\ndata: ")

	// A single line.
	b.Write(data)
	b.WriteString("\n\n")
	return s.write(b.Bytes())
}

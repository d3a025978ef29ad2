package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/salestats"
	"seckill/internal/service"
)

// statsHandler shows a sale as it is now, on all instances.
type statsHandler struct {
	monitor  *salestats.Monitor
	watchers *salestats.Watchers
	vouchers *voucherHandler
}

// statsOut is a sale in JSON.
type statsOut struct {
	Voucher    voucherOut       `json:"voucher"`
	At         time.Time        `json:"at"`
	Lane       string           `json:"lane"`
	Instances  int              `json:"instances"`
	Stock      statsStock       `json:"stock"`
	Orders     map[string]int64 `json:"orders"`
	Queue      *statsQueue      `json:"queue"`
	Invariants []statsInvariant `json:"invariants"`
	CheckedAt  *time.Time       `json:"checked_at"`
	Totals     statsTotals      `json:"totals"`
	Seconds    []statsSecond    `json:"seconds"`
}

type statsStock struct {
	Initial  int64  `json:"initial"`
	Added    int64  `json:"added"`
	Database int64  `json:"database"`
	Gate     *int64 `json:"gate"`
}

type statsQueue struct {
	Lag         int64   `json:"lag"`
	Oldest      float64 `json:"oldest_seconds"`
	DeadLetters int64   `json:"dead_letters"`
}

type statsInvariant struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	OK     *bool  `json:"ok"`
	Detail string `json:"detail"`
}

// statsCounts is what happened in some time.
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

func newStatsCounts(s *salestats.PulseSecond) statsCounts {
	c := statsCounts{
		Outcomes: s.Answers, Settled: s.Settled, Batches: s.Batches, BatchRows: s.Rows, P50: milliseconds(s.P50), P99: milliseconds(s.P99),
	}
	if c.Outcomes == nil { // an empty object is easier to read than none
		c.Outcomes = map[string]uint64{}
	}
	if c.Settled == nil {
		c.Settled = map[string]uint64{}
	}
	return c
}

func (h *statsHandler) out(s *salestats.SaleStats) statsOut {
	sale := s.Voucher.Sale
	out := statsOut{
		Voucher: h.vouchers.out(&s.Voucher), At: s.At, Lane: s.Lane, Instances: s.Instances,
		Stock:      statsStock{Initial: sale.InitialStock, Added: s.Added, Database: sale.Stock, Gate: s.Gate},
		Orders:     map[string]int64{},
		Invariants: make([]statsInvariant, len(s.Invariants)),
		Totals:     statsTotals{s.Totals.At, newStatsCounts(&s.Totals)},
		Seconds:    make([]statsSecond, len(s.Seconds)),
	}
	if q := s.Queue; q != nil {
		out.Queue = &statsQueue{q.Unsettled, math.Round(q.Oldest.Seconds()*1000) / 1000, q.DeadLetters}
	}
	if !s.CheckedAt.IsZero() {
		out.CheckedAt = &s.CheckedAt
		for status := service.OrderPendingPayment; status <= service.OrderRefunded; status++ {
			out.Orders[status.String()] = s.Orders[status]
		}
	}
	for i, v := range s.Invariants {
		out.Invariants[i] = statsInvariant(v)
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
	s, err := h.monitor.Stats(c.Request.Context(), id, time.Time{})
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, h.out(&s))
}

// events streams a sale, second by second. The first event has all seconds that are known, so that whoever was cut off
// misses none, and each later one those that are new.
func (h *statsHandler) events(c *gin.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	watch, err := h.watchers.Watch(caller(c).UserID, id)
	if err != nil {
		return err
	}
	s := &statsStream{h: h, watch: watch, id: id}
	streaming := false
	defer func() {
		if !streaming {
			h.watchers.Unwatch(watch)
		}
	}()
	stats, err := s.look()
	if err != nil {
		return err
	}
	if s.stream, err = openStream(c); err != nil {
		return err
	}
	streaming = true
	go s.run(stats)
	return nil
}

// statsStream is one stream of a sale.
type statsStream struct {
	*stream

	h     *statsHandler
	watch *salestats.Watch
	id    int64
	told  time.Time // the last second
	event int64     // its id
}

func (s *statsStream) look() (salestats.SaleStats, error) {
	return aside(func(ctx context.Context) (salestats.SaleStats, error) { return s.h.monitor.Stats(ctx, s.id, s.told) })
}

// run writes an event for each beat, until the client is gone or the process stops. While the sale cannot be read, nothing
// is told but that the stream lives; the seconds are not lost.
func (s *statsStream) run(stats salestats.SaleStats) {
	defer s.h.watchers.Unwatch(s.watch)
	defer s.attend()()
	for s.tell(&stats) {
		for {
			if !s.sleep(s.watch, nil) {
				return
			}
			var err error
			if stats, err = s.look(); err == nil {
				break
			}
		}
	}
}

// tell writes an event. It returns false if the client is gone.
func (s *statsStream) tell(stats *salestats.SaleStats) bool {
	at := stats.At.Unix() - 2 // of the second that was over for sure
	if n := len(stats.Seconds); n > 0 {
		s.told = stats.Seconds[n-1].At
		at = s.told.Unix()
	}
	s.event = max(s.event+1, at) // the clock may go back
	data, err := json.Marshal(s.h.out(stats))
	if err != nil { // it has a form
		return false
	}
	b := bytes.NewBufferString("event: stats\nid: " + strconv.FormatInt(s.event, 10) + "\ndata: ")
	b.Write(data) // in one line
	b.WriteString("\n\n")
	return s.write(b.Bytes())
}

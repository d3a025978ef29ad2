package handler

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/ops/salestats"
	"seckill/internal/sale/entry"
)

type statsOut struct {
	Voucher voucherOut `json:"voucher"`
	*salestats.SaleStats
	// Only of a sale with a waiting room.
	Room *statsRoom `json:"room,omitempty"`
}

type statsRoom struct {
	entry.Stats
	Rate   int  `json:"rate"`
	Paused bool `json:"paused"`
}

func (a *api) showStats(c *gin.Context, id int64) error {
	hour := c.DefaultQuery("hour", "true")
	if hour != "true" && hour != "false" {
		return domain.Invalid("hour", "must be true or false")
	}

	out, err := a.readStats(c.Request.Context(), id, time.Time{}, hour == "true")
	if err != nil {
		return err
	}

	if hour == "false" {
		// They are nine tenths of the answer, and its client shows the figures only.
		out.Seconds = out.Seconds[:0]
	}
	return writeJSON(c, http.StatusOK, out)
}

func (a *api) readStats(ctx context.Context, id int64, after time.Time, hour bool) (statsOut, error) {
	s, err := a.Monitor.Stats(ctx, id, after)
	if err != nil {
		return statsOut{}, err
	}

	if hour {
		s.Hour = a.Monitor.Hour(ctx, id)
	}

	out := statsOut{Voucher: a.voucher(&s.Voucher), SaleStats: &s}
	if e := &s.Voucher.Sale.Entry; e.Mode == domain.EntryRoom {
		room, err := a.Entry.Stats(ctx, id)
		if err != nil {
			return statsOut{}, err
		}
		out.Room = &statsRoom{room, e.Rate, e.Paused}
	}

	return out, nil
}

// events streams the statistics of a sale, one event per second. The first event has all known seconds, so a client
// that reconnects misses none; each later event has the new seconds only.
func (a *api) statsEvents(c *gin.Context, id int64) error {
	return serveStream(c, a.Auth, a.SaleSubscribers, id, func(events *stream) (func(), error) {
		s := &statsStream{
			stream: events,
			api:    a,
			id:     id,
			admin:  caller(c),
		}

		stats, err := s.load()
		return func() { s.run(stats) }, err
	})
}

type statsStream struct {
	*stream

	api   *api
	id    int64
	admin auth.Identity
	// The last second in an event.
	sent time.Time
	// The number of events.
	events int
}

// load returns the statistics with the seconds that are not sent yet. Further errors: ErrForbidden and
// ErrUnauthenticated if the user has lost the role of the request, or no longer exists.
func (s *statsStream) load() (statsOut, error) {
	return readDetached(func(ctx context.Context) (statsOut, error) {
		stats, err := s.api.readStats(ctx, s.id, s.sent, s.sent.IsZero())
		if err != nil {
			return statsOut{}, err
		}

		if stats.Figures != nil {
			stats.Figures.Curve = nil
		}

		role, err := s.api.Auth.CurrentRole(ctx, s.admin)
		if err == nil && !role.May(domain.MayRead) {
			err = domain.ErrForbidden
		}

		return stats, err
	})
}

// run writes an event on each tick of the monitor until the client disconnects, the user loses the role, or the process
// stops. While reads fail, it writes heartbeats only; the next successful read returns the missed seconds.
func (s *statsStream) run(stats statsOut) {
	for s.send(&stats) {
		for {
			if !s.wait(nil) {
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

func (s *statsStream) send(stats *statsOut) bool {
	if n := len(stats.Seconds); n > 0 {
		s.sent = stats.Seconds[n-1].At
	}

	s.events++
	data, err := json.Marshal(stats)
	return err == nil && s.stream.send("stats", strconv.Itoa(s.events), data)
}

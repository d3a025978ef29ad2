package handler

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/sale/entry"
)

const (
	// passHeader carries the entry pass of a purchase.
	passHeader = "X-Entry-Pass"
	// ticketHeader carries the ticket of the waiting room.
	ticketHeader = "X-Entry-Ticket"
)

func writeAdmission(c *gin.Context, a entry.Admission, err error) error {
	if err != nil {
		return err
	}

	status := http.StatusOK
	if a.State != entry.Admitted {
		status = http.StatusAccepted
	}
	return writeJSON(c, status, a)
}

func (a *api) enterSale(c *gin.Context, voucherID int64) error {
	var in struct {
		Solution string `json:"solution"`
	}
	if err := bindOptional(c, &in); err != nil {
		return err
	}

	admitted, err := a.Entry.Enter(c.Request.Context(), caller(c).UserID, voucherID, in.Solution)
	return writeAdmission(c, admitted, err)
}

func (a *api) showEntry(c *gin.Context, voucherID int64) error {
	admitted, err := a.Entry.Ask(c.Request.Context(), caller(c).UserID, voucherID, c.GetHeader(ticketHeader))
	return writeAdmission(c, admitted, err)
}

func (a *api) leaveEntry(c *gin.Context, voucherID int64) error {
	return writeNoContent(c, a.Entry.Leave(c.Request.Context(), caller(c).UserID, voucherID, c.GetHeader(ticketHeader)))
}

func (a *api) entryEvents(c *gin.Context, voucherID int64) error {
	return serveStream(c, a.Auth, a.RoomSubscribers, voucherID, func(events *stream) (func(), error) {
		s := &entryStream{
			stream:  events,
			api:     a,
			user:    caller(c).UserID,
			voucher: voucherID,
			ticket:  c.GetHeader(ticketHeader),
		}

		first, err := s.ask(c.Request.Context())
		return func() { s.run(first) }, err
	})
}

type entryStream struct {
	*stream

	api           *api
	user, voucher int64
	ticket        string
}

func (s *entryStream) ask(ctx context.Context) (entry.Admission, error) {
	return s.api.Entry.Ask(ctx, s.user, s.voucher, s.ticket)
}

// run writes events until the wait is over, the client disconnects, or the process stops. A change for this buyer is sent
// at once, a new position at the interval of the polls.
func (s *entryStream) run(a entry.Admission) {
	poll := time.NewTimer(0)
	defer poll.Stop()

	sent := entry.Admission{}
	due := time.Time{}
	for {
		now := time.Now()
		if a.State != sent.State || a.Pass != sent.Pass || a.Paused != sent.Paused || a.Message != sent.Message || !now.Before(due) {
			if !s.send("entry", a) {
				return
			}

			wait := time.Duration(a.Poll) * time.Millisecond
			if !a.ExpiresAt.IsZero() {
				wait = heartbeat
			}

			sent = a
			due = now.Add(wait)
			poll.Reset(wait)
		}

		if !s.wait(poll.C) {
			return
		}

		next, err := readDetached(s.ask)
		if outcome := Outcome(err); err == nil {
			a = next
		} else if outcome != "unavailable" && outcome != "internal" {
			s.send("end", map[string]string{"code": outcome})
			return
		}
	}
}

func (s *entryStream) send(event string, data any) bool {
	b, err := json.Marshal(data)
	return err == nil && s.stream.send(event, "", b)
}

// Package tracking reports to buyers what becomes of their admissions.
//
// Any process can read the ticket of an admission that is not an order ([Tracker.Ticket]). The process with the waiting
// buyer also receives the outcome as a message ([Tracker.Expect]): each process subscribes to its own channel
// ([Tracker.Run]), on which [Tracker.Publish] sends outcomes. Messages may be lost, so a waiting buyer also polls the
// ticket ([OutcomeWaiter.Wait]). All waiting buyers share these reads.
package tracking

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
)

// Tracker reads tickets and receives outcomes. It is safe for concurrent use. Errors of Redis are wrapped in
// domain.ErrUnavailable.
type Tracker struct {
	rdb      redis.UniversalClient
	instance string
	log      *slog.Logger
	tickets  *ticketReader

	mu      sync.Mutex
	waiting map[int64][]*OutcomeWaiter // by order id
}

// New returns a tracker without connecting to Redis. instance names the outcome channel of this process; it must be
// unique among all processes, and a single line. The caller must Close the tracker after reading tickets.
func New(rdb redis.UniversalClient, instance string, log *slog.Logger) *Tracker {
	return &Tracker{
		rdb: rdb, instance: instance, log: log, tickets: newTicketReader(rdb), waiting: map[int64][]*OutcomeWaiter{},
	}
}

// Close cancels running ticket reads, and waits for them to end.
func (t *Tracker) Close() { t.tickets.close() }

// Instance returns the name of this process's outcome channel. Admission.ReplyTo must have it for a subscription of
// this process to receive the outcome.
func (t *Tracker) Instance() string { return t.instance }

// unavailable wraps an error of Redis in domain.ErrUnavailable.
func unavailable(err error, format string, id int64) error {
	return fmt.Errorf("%w: tracking: %s: %w", domain.ErrUnavailable, fmt.Sprintf(format, id), err)
}

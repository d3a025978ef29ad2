package admission

import (
	"log/slog"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Tracker reports to buyers what becomes of their admissions. It is safe for concurrent use. Errors of Redis are wrapped in
// domain.ErrUnavailable.
type Tracker struct {
	rdb      redis.UniversalClient
	instance string
	log      *slog.Logger
	tickets  *ticketReader

	mu sync.Mutex
	// waiting is by order id.
	waiting map[int64][]*OutcomeWaiter
}

// newTracker returns a tracker without connecting to Redis. instance names the outcome channel of this process; it must be
// unique among all processes, and a single line. The caller must Close the tracker after reading tickets.
func newTracker(rdb redis.UniversalClient, instance string, log *slog.Logger) *Tracker {
	return &Tracker{
		rdb:      rdb,
		instance: instance,
		log:      log,
		tickets:  newTicketReader(rdb),
		waiting:  map[int64][]*OutcomeWaiter{},
	}
}

// Close cancels running ticket reads, and waits for them to end.
func (t *Tracker) Close() { t.tickets.close() }

// Instance returns the name of this process's outcome channel. Admission.ReplyTo must have it for a subscription of
// this process to receive the outcome.
func (t *Tracker) Instance() string { return t.instance }

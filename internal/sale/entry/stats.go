package entry

import (
	"context"
	"time"

	"seckill/internal/domain"
)

// Stats are the figures of a waiting room. All but Present are the same on every server.
type Stats struct {
	// Lobby is the number of buyers that wait for the start.
	Lobby int `json:"lobby"`
	// Waiting is the number of buyers that wait for their turn; 0 before the start.
	Waiting int `json:"waiting"`
	// Present is the number of buyers of these two that are not absent, as far as the servers know of each other.
	Present int `json:"present"`
	// Admitted is the number of buyers that got a pass, since the room opened.
	Admitted int `json:"admitted"`
	// Outstanding is the number of passes that stand for a unit: they have not bought, and are valid or were less than
	// lateOrder ago.
	Outstanding int `json:"outstanding"`
	// Used is the number of such passes that have bought.
	Used int `json:"used"`
	// Left is the number of buyers that gave up their place or an unused pass, since the room opened.
	Left int `json:"left"`
}

// Stats returns the figures of the room of a sale, from memory. Error: domain.ErrUnavailable.
func (s *Service) Stats(ctx context.Context, voucherID int64) (Stats, error) {
	l, err := s.Rooms.open(ctx, voucherID)
	if err != nil {
		return Stats{}, err
	}
	return l.stats(s.Rooms.clock.now()), nil
}

// Totals returns the sums over the rooms in use of this server whose sale has not ended.
func (r *Rooms) Totals() Stats {
	var sum Stats
	for _, l := range r.inUse() {
		if !l.mayAdmit() {
			continue
		}

		// The clock is known once a room has been read.
		s := l.stats(r.clock.now())
		sum.Lobby += s.Lobby
		sum.Waiting += s.Waiting
		sum.Present += s.Present
		sum.Admitted += s.Admitted
		sum.Outstanding += s.Outstanding
		sum.Used += s.Used
		sum.Left += s.Left
	}

	return sum
}

func (l *line) mayAdmit() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sale.entry.Mode == domain.EntryRoom && (l.sale.state == domain.StateUpcoming || l.sale.state == domain.StateOnSale)
}

func (l *line) holdsUnits() bool {
	if !l.mayAdmit() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.outstanding() > 0
}

func (l *line) keep(reports []report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reports = reports
}

func (l *line) stats(now time.Time) Stats {
	l.mu.Lock()
	defer l.mu.Unlock()

	s := Stats{Admitted: l.admitted, Left: l.left}
	for _, r := range l.reports {
		if now.Sub(time.UnixMilli(r.At)) <= reportLife {
			s.Present += r.Present
		}
	}

	s.Outstanding = int(l.outstanding())
	for _, round := range l.rounds {
		s.Used += round.buyers
	}
	s.Used -= s.Outstanding

	if l.room.StartedAt.IsZero() {
		s.Lobby = l.waiting()
	} else {
		s.Waiting = l.waiting()
	}

	return s
}

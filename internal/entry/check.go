package entry

import (
	"fmt"
	"slices"

	"seckill/internal/domain"
)

// RoomCheck is the result of CheckRoom.
type RoomCheck struct {
	Admitted, Left int // buyers; those who left after their admission count in both
	// Later is how many buyers were admitted after someone behind them: they were absent when it was their turn.
	Later  int
	Faults []string // none if the log is consistent
}

// CheckRoom checks the stored state of a room with all its events. A fault is an admission before the start, of a number
// that does not exist, that left or that was admitted before, buyers that are not in the order of the line, and a gap in
// the sequence numbers. Between two admissions the order of the line cannot be checked, because the log does not name
// the buyers who are absent; Later counts them.
func CheckRoom(room *domain.Room) RoomCheck {
	var c RoomCheck
	fault := func(e *domain.RoomEvent, format string, args ...any) {
		c.Faults = append(c.Faults, fmt.Sprintf("event %d: ", e.Seq)+fmt.Sprintf(format, args...))
	}
	l := newLine()
	if !room.StartedAt.IsZero() {
		l.start(LobbyOrder(room.Seed, room.Size))
	}
	admitted, left := map[uint32]bool{}, map[uint32]bool{}
	furthest := int64(-1)
	for i := range room.Events {
		e := &room.Events[i]
		if int(e.Seq) != i+1 {
			fault(e, "sequence number %d is missing", i+1)
			return c
		}
		if e.Kind == domain.RoomAdmitted && room.StartedAt.IsZero() {
			fault(e, "buyers are admitted before the start")
		}
		indexes := make([]uint32, len(e.Numbers))
		for j, n := range e.Numbers {
			indexes[j] = l.indexOf(n)
			switch {
			case n >= room.Joined:
				fault(e, "number %d does not exist", n)
			case left[n]:
				fault(e, "number %d has left before", n)
			case e.Kind == domain.RoomAdmitted && admitted[n]:
				fault(e, "number %d is admitted again", n)
			}
			if e.Kind == domain.RoomLeft {
				left[n] = true
				continue
			}
			admitted[n] = true
			if int64(indexes[j]) < furthest {
				c.Later++
			}
		}
		if e.Kind == domain.RoomAdmitted && len(indexes) > 0 {
			if !slices.IsSorted(indexes) {
				fault(e, "buyers are not in the order of the line")
			}
			furthest = max(furthest, int64(slices.Max(indexes)))
		}
	}
	c.Admitted, c.Left = len(admitted), len(left)
	return c
}

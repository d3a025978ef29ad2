package entry

import (
	"fmt"
	"slices"

	"seckill/internal/domain"
)

// RoomCheck is the result of CheckRoom.
type RoomCheck struct {
	// Admitted and Left are buyers; those who left after their admission count in both.
	Admitted, Left int
	// Later is how many buyers were admitted after someone behind them: they were absent when it was their turn.
	Later int
	// Faults is empty if the log is consistent.
	Faults []string
}

// CheckRoom checks the stored state of a room with all its events. A fault is an admission before the start, of a number
// that does not exist, that left or that was admitted before, buyers that are not in the order of the line, and a gap in
// the sequence numbers. Between two admissions the order of the line cannot be checked, because the log does not name
// the buyers who are absent; Later counts them.
func CheckRoom(room *domain.Room) RoomCheck {
	c := roomChecker{
		room:     room,
		line:     newLine(),
		admitted: map[uint32]bool{},
		left:     map[uint32]bool{},
		furthest: [2]int64{-1, -1},
	}

	if !room.StartedAt.IsZero() {
		c.line.start(LobbyOrder(room.Seed, room.Size))
	}

	for i := range room.Events {
		e := &room.Events[i]
		if int(e.Seq) != i+1 {
			c.fault(e, "sequence number %d is missing", i+1)
			return c.result
		}
		c.check(e)
	}

	c.result.Admitted = len(c.admitted)
	c.result.Left = len(c.left)
	return c.result
}

type roomChecker struct {
	room     *domain.Room
	line     *line
	admitted map[uint32]bool
	left     map[uint32]bool
	// furthest is the last position that was admitted, of the line and of those behind it.
	furthest [2]int64
	result   RoomCheck
}

func (c *roomChecker) fault(e *domain.RoomEvent, format string, args ...any) {
	c.result.Faults = append(c.result.Faults, fmt.Sprintf("event %d: ", e.Seq)+fmt.Sprintf(format, args...))
}

func (c *roomChecker) check(e *domain.RoomEvent) {
	for _, n := range e.Numbers {
		switch {
		case n >= c.room.Joined:
			c.fault(e, "number %d does not exist", n)
		case c.left[n]:
			c.fault(e, "number %d has left before", n)
		case e.Kind != domain.RoomLeft && c.admitted[n]:
			c.fault(e, "number %d is admitted again", n)
		}

		switch e.Kind {
		case domain.RoomLeft:
			c.left[n] = true
		case domain.RoomAdmitted:
			c.admitted[n] = true
		case domain.RoomBehind:
			c.line.behind.set(c.line.positionOf(n))
		}
	}

	if e.Kind == domain.RoomAdmitted {
		c.checkOrder(e)
	}
}

func (c *roomChecker) checkOrder(e *domain.RoomEvent) {
	if c.room.StartedAt.IsZero() {
		c.fault(e, "buyers are admitted before the start")
	}

	positions := make([]uint32, len(e.Numbers))
	for i, n := range e.Numbers {
		positions[i] = c.line.positionOf(n)
	}

	if !slices.IsSortedFunc(positions, c.line.compare) {
		c.fault(e, "buyers are not in the order of the line")
	}

	before := c.furthest
	for _, i := range positions {
		part := 0
		if c.line.behind.has(i) {
			part = 1
		}
		if int64(i) < before[part] {
			c.result.Later++
		}
		c.furthest[part] = max(c.furthest[part], int64(i))
	}
}

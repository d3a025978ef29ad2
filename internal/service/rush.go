package service

import (
	"context"
	"errors"
	"time"
)

// ErrNoDemo says that something is only for servers on which nothing is at stake.
var ErrNoDemo = errors.New("this server is not in demo mode (SECKILL_DEMO)")

// The bounds of a rush that an admin may start.
const (
	MaxRushBuyers = 5_000
	MaxRushStock  = 10_000
)

// RushState says whether a rush is under way.
type RushState string

// The states of a rush.
const (
	RushIdle    RushState = "idle" // there was none
	RushRunning RushState = "running"
	RushDone    RushState = "done"   // everybody was answered, and the verdicts are in
	RushFailed  RushState = "failed" // it was stopped, or could not be brought to its end
)

// Rush is a crowd of made-up buyers, and what became of them.
type Rush struct {
	State     RushState
	VoucherID int64
	Buyers    int
	Stock     int64
	Answered  int // buyers who have their last answer
	Orders    int
	Took      time.Duration
	P50, P99  time.Duration  // of the buyers' last answers, when all are in
	Outcomes  map[string]int // all answers by code, likewise
	Verdicts  []Verdict
	Detail    string // why it failed
}

// Verdict is a promise held against what buyers were told.
type Verdict struct {
	ID, Title string
	OK        bool
	Detail    string
}

// Rusher sends a crowd to a sale of its own. It is safe for concurrent use.
type Rusher interface {
	// Start makes the sale and sends the crowd. Errors: *InvalidError, ErrInvalidState (one is under way), ErrUnavailable.
	Start(ctx context.Context, admin int64, buyers int, stock int64) (Rush, error)
	// Last is the rush that was started last.
	Last() Rush
	// Stop ends it, and waits for the end no longer than ctx.
	Stop(ctx context.Context)
}

// CheckRush refuses a rush that is too large for a demo. Error: *InvalidError.
func CheckRush(buyers int, stock int64) error {
	var e InvalidError
	if buyers < 1 || buyers > MaxRushBuyers {
		e.add("buyers", "must be between 1 and %d", MaxRushBuyers)
	}
	if stock < 1 || stock > MaxRushStock {
		e.add("stock", "must be between 1 and %d", MaxRushStock)
	}
	return e.orNil()
}

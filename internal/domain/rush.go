package domain

import (
	"context"
	"errors"
)

// ErrNoDemo reports that an operation is available only in demo mode.
var ErrNoDemo = errors.New("this server is not in demo mode (SECKILL_DEMO)")

// The largest rush that an admin may start.
const (
	maxRushBuyers = 5_000
	maxRushStock  = 10_000
	// In seconds.
	maxRushFor = 60
)

// RushPlan is the size of a rush.
type RushPlan struct {
	Buyers int   `json:"buyers"`
	Stock  int64 `json:"stock"`
	// Seconds over which the buyers arrive; 0: all at once.
	For int `json:"for,omitempty"`
}

// RushState is the state of a rush.
type RushState string

// The states of a rush.
const (
	RushIdle    RushState = "idle" // no rush was started
	RushRunning RushState = "running"
	RushDone    RushState = "done"   // all buyers have their final answer, and the verdicts are known
	RushFailed  RushState = "failed" // it was stopped or could not be completed
)

// RushReason is the code of a known cause of a failed rush.
type RushReason string

// The known causes.
const (
	RushStopped  RushReason = "stopped" // by an admin
	RushTimeout  RushReason = "timeout"
	RushShutdown RushReason = "shutdown" // of its server
)

// Rush is the progress and the result of a load simulation.
type Rush struct {
	State     RushState `json:"state"`
	VoucherID int64     `json:"voucher_id,omitempty,string"`
	Buyers    int       `json:"buyers"`
	Stock     int64     `json:"stock"`
	// Buyers with their final answer.
	Answered int          `json:"answered"`
	Orders   int          `json:"orders"`
	Took     Milliseconds `json:"took_ms"`
	// Latency of the final answers; set at the end.
	P50 Milliseconds `json:"p50_ms"`
	P99 Milliseconds `json:"p99_ms"`
	// Number of answers by code; set at the end.
	Outcomes map[string]int `json:"outcomes"`
	Verdicts []Verdict      `json:"verdicts"`
	// Why it failed; empty: for a reason that only Detail has.
	Reason RushReason `json:"reason,omitempty"`
	Detail string     `json:"detail,omitempty"`
}

// Rusher runs load simulations, one at a time. It is safe for concurrent use.
type Rusher interface {
	// Start creates a sale and starts its buyers. Errors: *InvalidError, ErrInvalidState (a rush is running),
	// ErrUnavailable.
	Start(ctx context.Context, claim *Claim, admin int64, plan RushPlan) (Rush, error)
	// Last returns the rush that was started last, finished or not.
	Last() Rush
	// Stop ends the running rush and waits for its end, at most until ctx ends.
	Stop(ctx context.Context)
}

// Check returns an *InvalidError if an admin may not start such a rush.
func (p RushPlan) Check() error {
	var e InvalidError
	checkRange(p.Buyers, "buyers", 1, maxRushBuyers, &e)
	checkRange(p.Stock, "stock", 1, maxRushStock, &e)
	checkRange(p.For, "for", 0, maxRushFor, &e)
	return e.Err()
}

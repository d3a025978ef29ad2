package domain

import (
	"context"
	"errors"
)

// ErrNoDemo reports that an operation is available only in demo mode.
var ErrNoDemo = errors.New("this server is not in demo mode (SECKILL_DEMO)")

// The largest rush that an admin may start.
const (
	MaxRushBuyers = 5_000
	MaxRushStock  = 10_000
)

// RushState is the state of a rush.
type RushState string

// The states of a rush.
const (
	RushIdle    RushState = "idle" // no rush was started
	RushRunning RushState = "running"
	RushDone    RushState = "done"   // all buyers have their final answer, and the verdicts are known
	RushFailed  RushState = "failed" // it was stopped or could not be completed
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
	// Why it failed.
	Detail string `json:"detail,omitempty"`
}

// Rusher runs load simulations, one at a time. It is safe for concurrent use.
type Rusher interface {
	// Start creates a sale and starts its buyers. Errors: *InvalidError, ErrInvalidState (a rush is running),
	// ErrUnavailable.
	Start(ctx context.Context, claim *Claim, admin int64, buyers int, stock int64) (Rush, error)
	// Last returns the rush that was started last, finished or not.
	Last() Rush
	// Stop ends the running rush and waits for its end, at most until ctx ends.
	Stop(ctx context.Context)
}

// CheckRush checks the size of a rush. Error: *InvalidError.
func CheckRush(buyers int, stock int64) error {
	var e InvalidError
	if buyers < 1 || buyers > MaxRushBuyers {
		e.Add("buyers", "must be between 1 and %d", MaxRushBuyers)
	}
	if stock < 1 || stock > MaxRushStock {
		e.Add("stock", "must be between 1 and %d", MaxRushStock)
	}
	return e.Err()
}

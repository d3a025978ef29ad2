package doctor

import (
	"context"
	"time"
)

// skew is how far a server's clock is ahead of the local one, and the error of that value.
type skew struct{ ahead, uncertain time.Duration }

// measureSkew reads a server's clock. The server read it at some time within the round trip, so the error is half of that.
func measureSkew(ctx context.Context, read func(context.Context) (time.Time, error)) (skew, error) {
	sent := time.Now()
	theirs, err := read(ctx)
	half := time.Since(sent) / 2
	return skew{theirs.Sub(sent.Add(half)), half}, err
}

// result compares a skew with limits, after subtracting the error that the network may explain.
func (s skew) result(warn, fail time.Duration, cost string) Result {
	const change = "run an NTP client (chrony) on this machine and on the server; chronyc tracking shows which of the two is off"
	word := "ahead of"
	off := s.ahead
	if off < 0 {
		word = "behind"
		off = -off
	}

	found := off.Round(time.Millisecond).String() + " " + word + " the local clock (± " + s.uncertain.Round(100*time.Microsecond).String() + ")"
	sure := off - s.uncertain
	switch {
	case sure > fail:
		return Bad(Fail, change, "its clock is %s: %s", found, cost)
	case sure > warn:
		return Bad(Warn, change, "its clock is %s: %s", found, cost)
	}

	return Good("its clock is %s", found)
}

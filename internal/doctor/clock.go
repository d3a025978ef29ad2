package doctor

import (
	"context"
	"slices"
	"time"
)

// probes is how often a server is asked for its clock and its latency: the median forgives a hiccup, and the fastest
// answer tells the clock best.
const probes = 9

// slow is the median round trip above which a warning is due: an order needs several round trips, one after the other.
const slow = 5 * time.Millisecond

// probe asks a few times and returns the median round trip.
func probe(ctx context.Context, ask func(context.Context) error) (time.Duration, error) {
	trips := make([]time.Duration, probes)
	for i := range trips {
		begin := time.Now()
		if err := ask(ctx); err != nil {
			return 0, err
		}
		trips[i] = time.Since(begin)
	}
	slices.Sort(trips)
	return trips[probes/2], nil
}

// latency is the result for a median round trip.
func latency(median time.Duration, cost, change string) Result {
	if median > slow {
		return Bad(Warn, change, "a round trip takes %s (median of %d, at most %s is good): %s",
			median.Round(10*time.Microsecond), probes, slow, cost)
	}
	return Good("a round trip takes %s", median.Round(10*time.Microsecond))
}

// skew is how far a server's clock is ahead of ours, and how wrong that may be.
type skew struct{ ahead, uncertain time.Duration }

// measureSkew asks for a server's clock. It believes the fastest answer, which leaves the least room: the server read its
// clock somewhere between question and answer.
func measureSkew(ctx context.Context, now func() time.Time, ask func(context.Context) (time.Time, error)) (skew, error) {
	var best skew
	for i := range probes {
		asked, begin := now(), time.Now()
		theirs, err := ask(ctx)
		if err != nil {
			return skew{}, err
		}
		half := time.Since(begin) / 2
		if s := (skew{theirs.Sub(asked.Add(half)), half}); i == 0 || s.uncertain < best.uncertain {
			best = s
		}
	}
	return best, nil
}

// result holds a skew against limits. What the network may explain counts for the clock.
func (s skew) result(warn, fail time.Duration, cost string) Result {
	const change = "run an NTP client (chrony) on this machine and on the server; chronyc tracking tells which of the two is off"
	word, off := "ahead of", s.ahead
	if off < 0 {
		word, off = "behind", -off
	}
	found := off.Round(time.Millisecond).String() + " " + word + " ours (give or take " + s.uncertain.Round(100*time.Microsecond).String() + ")"
	switch sure := off - s.uncertain; {
	case sure > fail:
		return Bad(Fail, change, "its clock is %s: %s", found, cost)
	case sure > warn:
		return Bad(Warn, change, "its clock is %s: %s", found, cost)
	}
	return Good("its clock is %s", found)
}

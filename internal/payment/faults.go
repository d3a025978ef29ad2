package payment

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Faults are what a Sandbox can be told to do wrong, for all payments alike. The zero value does everything right.
type Faults struct {
	Delay         time.Duration // until it tells of a payment; 0: sandboxDelay
	Repeat        int           // how often it tells once more of what was answered
	Lose          int           // how many calls of the webhook get lost before one arrives
	Fail          bool          // payments fail
	RefuseRefunds int           // how often it refuses to return the money of a payment
}

func (f Faults) delay() time.Duration {
	if f.Delay == 0 {
		return sandboxDelay
	}
	return f.Delay
}

// UnmarshalText reads a comma list such as "delay=3s,repeat=2,lose=1,fail,refuse-refunds=2", for the configuration.
func (f *Faults) UnmarshalText(text []byte) error {
	*f = Faults{}
	if len(text) == 0 {
		return nil
	}
	for word := range strings.SplitSeq(string(text), ",") {
		name, value, given := strings.Cut(strings.TrimSpace(word), "=")
		var err error
		switch name {
		case "delay":
			f.Delay, err = time.ParseDuration(value)
		case "repeat":
			f.Repeat, err = strconv.Atoi(value)
		case "lose":
			f.Lose, err = strconv.Atoi(value)
		case "refuse-refunds":
			f.RefuseRefunds, err = strconv.Atoi(value)
		case "fail":
			if f.Fail = true; given {
				return fmt.Errorf("%q: fail has no value", word)
			}
		default:
			return fmt.Errorf("%q is none of delay=3s, repeat=2, lose=1, fail, refuse-refunds=2", word)
		}
		if err != nil || f.Delay < 0 || f.Repeat < 0 || f.Lose < 0 || f.RefuseRefunds < 0 {
			return fmt.Errorf("%q has no usable value", word)
		}
	}
	return nil
}

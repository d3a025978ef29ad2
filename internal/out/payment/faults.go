package payment

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Faults configures the errors of a Sandbox, for all payments alike. The zero value has no errors.
type Faults struct {
	// Time until the first notice of a payment; 0 means sandboxDelay (300 ms).
	Delay time.Duration
	// How often a notice is repeated after a successful answer.
	Repeat int
	// How many calls of the webhook are lost before one arrives.
	Lose int
	// All payments fail.
	Fail bool
	// How often each refund is refused.
	RefuseRefunds int
}

// UnmarshalText parses a comma-separated list such as "delay=3s,repeat=2,lose=1,fail,refuse-refunds=2".
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
			f.Fail = true
			if given {
				return fmt.Errorf("%q: fail takes no value", word)
			}
		default:
			return fmt.Errorf("%q is none of delay=3s, repeat=2, lose=1, fail, refuse-refunds=2", word)
		}

		if err != nil || f.Delay < 0 || f.Repeat < 0 || f.Lose < 0 || f.RefuseRefunds < 0 {
			return fmt.Errorf("%q has an invalid value", word)
		}
	}

	return nil
}

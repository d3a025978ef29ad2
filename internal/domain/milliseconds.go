package domain

import (
	"encoding/json"
	"math"
	"time"
)

// Milliseconds is a duration whose JSON form is a number of milliseconds, rounded to two decimals.
type Milliseconds time.Duration

// MarshalJSON implements json.Marshaler.
func (m Milliseconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(math.Round(float64(time.Duration(m).Microseconds())/10) / 100)
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Milliseconds) UnmarshalJSON(b []byte) error {
	var ms float64
	err := json.Unmarshal(b, &ms)
	*m = Milliseconds(ms * float64(time.Millisecond))
	return err
}

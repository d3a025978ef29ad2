package domain

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// ID is a 64-bit id in JSON. It is written as a string, because JavaScript numbers are exact only up to 2^53, and read
// from a string or an integer.
type ID int64

// MarshalJSON implements json.Marshaler.
func (id ID) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatInt(int64(id), 10)), nil
}

// UnmarshalJSON implements json.Unmarshaler. It returns a *json.UnmarshalTypeError, to which encoding/json adds the
// field.
func (id *ID) UnmarshalJSON(b []byte) error {
	text := string(b)
	if b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}

	n, ok := ParseID(text)
	if !ok {
		return &json.UnmarshalTypeError{Value: text, Type: reflect.TypeFor[ID]()}
	}

	*id = ID(n)
	return nil
}

// ParseID parses an id of a request. It returns false for everything that is not a positive number in its usual form.
func ParseID(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n > 0 && s[0] >= '1' && s[0] <= '9'
}

// Time is a time in a request: RFC 3339 with a zone.
type Time struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler. It returns a *json.UnmarshalTypeError, to which encoding/json adds the
// field.
func (t *Time) UnmarshalJSON(b []byte) error {
	var text string

	// Unescapes the string: some encoders escape the + of the zone. RFC 3339 also permits t and z.
	err := json.Unmarshal(b, &text)
	if err == nil {
		err = t.UnmarshalText([]byte(strings.ToUpper(text)))
	}

	if err != nil {
		return &json.UnmarshalTypeError{Value: text, Type: reflect.TypeFor[Time]()}
	}
	return nil
}

// Nullable is a field of a request that null removes.
type Nullable[T any] struct {
	Present bool
	// Nil for null.
	Value *T
}

// UnmarshalJSON implements json.Unmarshaler, which encoding/json calls for null as well.
func (n *Nullable[T]) UnmarshalJSON(b []byte) error {
	n.Present = true
	return json.Unmarshal(b, &n.Value)
}

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

package domain

import (
	"encoding/json"
	"reflect"
	"strconv"
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

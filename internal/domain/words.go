package domain

import (
	"cmp"
	"fmt"
)

// words are the names of the values of a type in the API.
type words[T comparable] map[T]string

func (w words[T]) of(value T) string { return cmp.Or(w[value], "unknown") }

func (w words[T]) parse(word string) (T, bool) {
	for value, name := range w {
		if name == word {
			return value, true
		}
	}

	var none T
	return none, false
}

// Count returns a number with its noun, such as "2 orders".
func Count[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

package domain

import "cmp"

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

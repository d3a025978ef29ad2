// Package simtest is what the simulations of several packages share: the steps of a random walk, drawn by rapid.
package simtest

import (
	"maps"
	"math/bits"
	"slices"

	"pgregory.net/rapid"
)

// Step is something that may happen.
type Step struct {
	weight int
	can    func() bool
	Do     func(*rapid.T)
}

// NewStep makes a step that happens as often as its weight says, compared with the others, whenever it can; it always
// can if can is nil.
func NewStep(weight int, can func() bool, do func(*rapid.T)) Step {
	return Step{weight: weight, can: can, Do: do}
}

// Next draws one of the steps that can happen now.
func Next(t *rapid.T, steps map[string]Step) (name string) {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(steps)) { // the same order in every run: a seed repeats a walk
		if step := steps[name]; step.can == nil || step.can() {
			names = append(names, slices.Repeat([]string{name}, step.weight)...)
		}
	}
	return Evenly(t, "what", names...)
}

// Evenly draws one of some. Rapid's own generators prefer the first.
func Evenly[T any](t *rapid.T, label string, some ...T) T {
	if len(some) == 1 {
		return some[0]
	}
	return rapid.Custom(func(t *rapid.T) T {
		for {
			i := 0
			for range bits.Len(uint(len(some) - 1)) {
				i *= 2
				if rapid.Bool().Draw(t, "") {
					i++
				}
			}
			if i < len(some) {
				return some[i]
			}
		}
	}).Draw(t, label)
}

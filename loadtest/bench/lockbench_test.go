package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLockBars(t *testing.T) {
	t.Parallel()
	run := lockRun{
		"uncontended": {
			"two raw commands": {{Cycles: 100}, {Cycles: 200}}, "Mutex": {{Cycles: 150}, {Cycles: 100}},
			"redsync 4": {{Cycles: 50}, {Cycles: 200}}, "redislock 0": {{Cycles: 75}, {Cycles: 10}}, "rueidislock 1": {{Cycles: 900}, {Cycles: 900}},
		},
		"contended": {
			"Mutex": {{Cycles: 10, Requests: 2, P99: 5}, {Cycles: 20, Requests: 3, P99: 9}}, "Fair": {{Unfair: 1.1}, {Unfair: 1}},
			"redsync 4": {{Cycles: 5, P99: 10}, {Cycles: 10, P99: 3}}, "rueidislock 1": {{Cycles: 4, P99: 20}, {Cycles: 40, P99: 30}},
		},
	}
	var values [][]float64
	for _, b := range run.bars() {
		values = append(values, b.Values)
	}
	assert.Equal(t, [][]float64{{1.5, 0.5}, {2, 0.5}, {2, 0.5}, {2, 3}, {0.5, 3}, {1.1, 1}}, values)
}

package main

import (
	"fmt"
	"math"
	"slices"
)

// median of an even number of values is the mean of the two in the middle; NaN of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// spread writes the median, and what the smallest and largest values are.
func spread(values []float64) string {
	if len(values) == 0 || math.IsNaN(median(values)) {
		return "–"
	}
	if len(values) == 1 {
		return short(values[0])
	}
	return fmt.Sprintf("%s (%s – %s)", short(median(values)), short(slices.Min(values)), short(slices.Max(values)))
}

// short writes about three digits, and whole and large numbers in full with their thousands apart.
func short(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= 1000 || v == math.Trunc(v):
		return thousands(int64(math.Round(v)))
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func thousands(n int64) string {
	if n < 0 {
		return "-" + thousands(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// quotients divides each value by the one of the same round.
func quotients(a, b []float64) []float64 {
	q := make([]float64, min(len(a), len(b)))
	for i := range q {
		q[i] = a[i] / b[i]
	}
	return q
}

package report

import (
	"fmt"
	"math"
	"slices"
)

// median returns the median, which is the mean of the two middle values if their number is even, or NaN without values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}

	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func spread(values []float64) string {
	if len(values) == 0 || math.IsNaN(median(values)) {
		return "–"
	}
	if len(values) == 1 {
		return short(values[0])
	}

	return fmt.Sprintf("%s (%s – %s)", short(median(values)), short(slices.Min(values)), short(slices.Max(values)))
}

// short formats a number with about three digits, and whole or large numbers in full with thousands separators.
func short(v float64) string {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= 1000 || v == math.Trunc(v):
		return Thousands(int64(math.Round(v)))
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}

	return fmt.Sprintf("%.2f", v)
}

// Thousands formats an integer with thousands separators.
func Thousands(n int64) string {
	if n < 0 {
		return "-" + Thousands(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}

	return fmt.Sprintf("%s,%03d", Thousands(n/1000), n%1000)
}

// Quotients divides the values of a by those of b, index by index.
func Quotients(a, b []float64) []float64 {
	q := make([]float64, min(len(a), len(b)))
	for i := range q {
		q[i] = a[i] / b[i]
	}

	return q
}

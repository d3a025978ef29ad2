//go:build race

package testenv

// RaceDetector reports whether the test runs under the race detector.
const RaceDetector = true

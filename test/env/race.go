//go:build race

package env

// RaceDetector reports whether the test runs under the race detector.
const RaceDetector = true

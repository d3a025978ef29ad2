// Command check prints the slowest tests of runs of go test -json, how long the runs took, and what is over its limit.
//
//	go run ./test/check -run 210s -test 30s RESULT.json ...
//
// It judges nothing: no timed assertion decides a test. The seconds of a test are those between its begin and its end,
// beside other tests, and on a busy machine they grow. A run over its limits is repeated on a quiet machine before a test
// is moved to the lower level that can show its rule, or to make test-all.
//
// The tests of this package compare the files beside the program with it and with each other: deployment files, without a
// container engine, and documents.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// slowest is the number of tests that are printed.
const slowest = 15

func main() {
	run := flag.Duration("run", 0, "limit of all runs together (0: none)")
	test := flag.Duration("test", 0, "limit of one test (0: none)")
	flag.Parse()

	tests, took, err := readAll(flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
	for _, over := range judge(os.Stdout, tests, took, *run, *test) {
		fmt.Println("OVER THE BUDGET:", over)
	}
}

// result is a test that has ended. The seconds of a test with subtests are those of the subtests that do not run in
// parallel, and its own.
type result struct {
	name    string // package and test
	elapsed time.Duration
	parent  bool // has subtests, whose seconds count
}

// readAll returns the tests of the files, and how long the runs took together.
func readAll(files []string) ([]result, time.Duration, error) {
	var tests []result
	var took time.Duration
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, 0, err
		}
		more, t, err := readRun(f)
		_ = f.Close()
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", name, err)
		}
		tests = append(tests, more...)
		took += t
	}
	return tests, took, nil
}

// readRun returns the tests of a run, and how long it took.
func readRun(from io.Reader) ([]result, time.Duration, error) {
	var tests []result
	var first, last time.Time
	parents := map[string]bool{}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e struct {
			Time                  time.Time
			Action, Package, Test string
			Elapsed               float64 // seconds
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, 0, err
		}
		if !e.Time.IsZero() {
			last = e.Time
			if first.IsZero() {
				first = e.Time
			}
		}
		if e.Test == "" || e.Action != "pass" && e.Action != "fail" {
			continue
		}

		name := strings.TrimPrefix(e.Package, "seckill/") + " " + e.Test
		if i := strings.LastIndex(name, "/"); i > strings.Index(name, " ") {
			parents[name[:i]] = true
		}
		tests = append(tests, result{name: name, elapsed: time.Duration(e.Elapsed * float64(time.Second))})
	}

	for i := range tests {
		tests[i].parent = parents[tests[i].name]
	}
	return tests, last.Sub(first), lines.Err()
}

// judge prints the slowest tests and returns what is over the limits.
func judge(out io.Writer, tests []result, took, run, test time.Duration) []string {
	slices.SortStableFunc(tests, func(a, b result) int { return cmp.Compare(b.elapsed, a.elapsed) })

	var over []string
	count := 0
	fmt.Fprintln(out, "\nThe slowest tests:")
	for _, t := range tests {
		if t.parent {
			continue
		}
		if count < slowest {
			fmt.Fprintf(out, "%7.1f s  %s\n", t.elapsed.Seconds(), t.name)
		}
		if test > 0 && t.elapsed > test {
			over = append(over, fmt.Sprintf("%s takes %.1f s", t.name, t.elapsed.Seconds()))
		}
		count++
	}

	fmt.Fprintf(out, "%7.1f s  all %d tests, beside each other\n", took.Seconds(), count)
	if run > 0 && took > run {
		over = append(over, fmt.Sprintf("all tests take %.0f s", took.Seconds()))
	}
	return over
}

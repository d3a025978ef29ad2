// Command budget prints the slowest tests of runs of go test -json and the sum of their seconds, and fails if they are
// over their limits.
//
//	go run ./test/budget -sum 300s -test 10s RESULT.json ...
//
// The seconds of a test are those between its begin and its end, without its wait for its turn. On a busy machine they
// grow, so a run over its limits is repeated on a quiet one before a test is blamed.
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
	sum := flag.Duration("sum", 0, "limit of the sum (0: none)")
	test := flag.Duration("test", 0, "limit of one test (0: none)")
	flag.Parse()

	tests, err := readAll(flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "budget:", err)
		os.Exit(1)
	}
	if over := judge(os.Stdout, tests, *sum, *test); len(over) > 0 {
		fmt.Fprintln(os.Stderr, "over the budget:", strings.Join(over, "; "))
		os.Exit(1)
	}
}

// result is a test that has ended. The seconds of a test with subtests are those of the subtests that do not run in
// parallel, and its own.
type result struct {
	name    string // package and test
	elapsed time.Duration
	parent  bool // has subtests, whose seconds count
}

func readAll(files []string) ([]result, error) {
	var tests []result
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		read, err := read(f)
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		tests = append(tests, read...)
	}
	return tests, nil
}

// read returns the tests of a run.
func read(from io.Reader) ([]result, error) {
	var tests []result
	parents := map[string]bool{}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e struct {
			Action, Package, Test string
			Elapsed               float64 // seconds
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, err
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
	return tests, lines.Err()
}

// judge prints the slowest tests and returns what is over the limits.
func judge(out io.Writer, tests []result, sum, test time.Duration) []string {
	slices.SortStableFunc(tests, func(a, b result) int { return cmp.Compare(b.elapsed, a.elapsed) })

	var over []string
	var total time.Duration
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
		total += t.elapsed
	}

	fmt.Fprintf(out, "%7.1f s  all %d tests\n", total.Seconds(), count)
	if sum > 0 && total > sum {
		over = append(over, fmt.Sprintf("all tests take %.0f s", total.Seconds()))
	}
	return over
}

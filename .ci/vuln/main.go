// Command vuln runs govulncheck. Where the vulnerability database cannot be reached, it reads the record of the last check,
// .ci/vuln-checked, and fails if the commit that is checked out is more than a week newer. The date of the commit counts and
// not the clock: a commit that passed does not fail later, but work does not go on for more than a week without a check.
//
// Outside CI, a check without findings renews the record, to be committed.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

const (
	database   = "https://vuln.go.dev/index/db.json"
	recordFile = ".ci/vuln-checked"
	scanner    = "golang.org/x/vuln/cmd/govulncheck"
	maxAge     = 7 * 24 * time.Hour
)

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "vuln:", err)
		os.Exit(1)
	}
}

// run checks the module in the current directory with this version of govulncheck.
func run(ctx context.Context, version string) error {
	record, err := os.ReadFile(recordFile)
	if err != nil {
		return err
	}
	if err := reach(ctx, database); err != nil {
		fmt.Println("NOT CHECKED for known vulnerabilities:", err)
		out, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%cI").Output()
		if err != nil {
			return fmt.Errorf("date of the commit: %w", err)
		}
		commit, err := time.Parse(time.RFC3339, strings.TrimSpace(string(out)))
		if err != nil {
			return err
		}
		last, err := lastCheck(string(record), commit)
		fmt.Println("last check:", last)
		return err
	}
	check := exec.CommandContext(ctx, "go", "run", scanner+"@"+version, "./...")
	check.Stdout, check.Stderr = os.Stdout, os.Stderr
	if err := check.Run(); err != nil || os.Getenv("CI") != "" {
		return err
	}
	entry := fmt.Sprintf("%s checked with govulncheck %s", time.Now().UTC().Format(time.DateOnly), version)
	return os.WriteFile(recordFile, []byte(renew(string(record), entry)), 0o644) //nolint:gosec // a file of the repository
}

// reach returns nil if url answers 200 within 10 s.
func reach(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	return nil
}

// entryLine is the line of a record that is no comment: a date and what was done.
var entryLine = regexp.MustCompile(`(?m)^(\d{4}-\d\d-\d\d) .+$`)

// lastCheck returns the entry of a record. It fails if the entry is more than maxAge older than the commit, or newer than
// the day after it.
func lastCheck(record string, commit time.Time) (string, error) {
	m := entryLine.FindStringSubmatch(record)
	if m == nil {
		return "", errors.New(recordFile + " has no line with a date")
	}
	day, err := time.Parse(time.DateOnly, m[1])
	switch {
	case err != nil:
		return "", err
	case day.After(commit.Add(24 * time.Hour)):
		return m[0], errors.New(recordFile + " is dated after the commit")
	case commit.Sub(day) > maxAge:
		return m[0], errors.New("no check for more than a week: run `make vuln` where " + database + " can be reached, and commit " + recordFile)
	}
	return m[0], nil
}

// renew returns the record with this entry.
func renew(record, entry string) string { return entryLine.ReplaceAllLiteralString(record, entry) }

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A check is good for the commits of the week after it.
func TestCheckExpires(t *testing.T) {
	const record = "# a comment of 2020-01-01\n2026-11-23 checked with govulncheck v1.9.0\n"
	for commit, want := range map[string]string{
		"2026-11-22T00:30:00Z": "",
		"2026-11-23T12:00:00Z": "",
		"2026-11-29T23:59:59Z": "",
		"2026-11-30T00:00:01Z": "no check for more than a week",
		"2027-11-23T12:00:00Z": "no check for more than a week",
		"2026-11-20T12:00:00Z": "dated after the commit",
	} {
		at, err := time.Parse(time.RFC3339, commit)
		require.NoError(t, err)
		entry, err := lastCheck(record, at)
		require.Equal(t, "2026-11-23 checked with govulncheck v1.9.0", entry)
		if want == "" {
			require.NoError(t, err, commit)
		} else {
			require.ErrorContains(t, err, want, commit)
		}
	}
	for _, record := range []string{"", "# 2026-11-23\n", "2026-13-45 checked\n"} {
		_, err := lastCheck(record, time.Now())
		require.Error(t, err, record)
	}
}

func TestRenewKeepsComments(t *testing.T) {
	require.Equal(t, "# a\n2026-11-24 b\n", renew("# a\n2026-11-23 waived\n", "2026-11-24 b"))
}

func TestOnlyAnswer200IsReached(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	require.NoError(t, reach(t.Context(), server.URL))
	status = http.StatusForbidden
	require.ErrorContains(t, reach(t.Context(), server.URL), "403")
	server.Close()
	require.Error(t, reach(t.Context(), server.URL))
}

func TestRecordOfRepositoryHasDate(t *testing.T) {
	record, err := os.ReadFile("../vuln-checked")
	require.NoError(t, err)
	require.Len(t, entryLine.FindAllString(string(record), -1), 1)
}

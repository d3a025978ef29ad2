package rig

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/ops/doctor"
	"seckill/test/env"
)

// ChangeGate adds units to the only loaded gate of a sale in lane queue, behind the back of the servers.
func (s *Stack) ChangeGate(t *testing.T, sale string, units int64) {
	t.Helper()
	rdb := s.Client(t)
	keys, err := rdb.Keys(t.Context(), "seckill:{s*}:"+sale+":stock").Result()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.NoError(t, rdb.IncrBy(t.Context(), keys[0], units).Err())
}

// WithoutBackgroundRepair returns a stack whose servers do not repair gates by themselves, and whose reconcile command
// uses short waits.
func WithoutBackgroundRepair(s *Stack) *Stack {
	return s.In("queue").With(EnvEvery+"=1h", EnvMinAge+"=2s", EnvPause+"=500ms", EnvLasting+"=2s")
}

// Count returns a number from the database.
func (s *Stack) Count(t *testing.T, query string) int64 {
	t.Helper()

	var n int64
	s.Query(t, func(db *sql.DB) { require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&n)) })

	return n
}

// doctorTries bounds the repetitions of a doctor's report. The doctor gives a server two seconds for an answer, which a
// sound one may exceed on a busy machine.
const doctorTries = 10

// DoctorReports runs the doctor until its output has a text, and returns the output.
func (s *Stack) DoctorReports(t *testing.T, text string, args ...string) string {
	t.Helper()

	out := ""
	for range doctorTries {
		_, out = s.Run(t, append([]string{"doctor"}, args...)...)
		if strings.Contains(out, text) {
			return out
		}
		forgiven.commands.Add(1)
	}

	require.Contains(t, out, text)
	return out
}

// Diagnose runs the doctor until its exit code is wantCode, and returns its findings by "check" or "check on server".
func (s *Stack) Diagnose(t *testing.T, wantCode int, args ...string) map[string]doctor.Finding {
	t.Helper()
	var report struct {
		Findings                      []doctor.Finding
		OK, Warnings, Failed, Skipped int
	}

	for try := 1; ; try++ {
		var text, summary env.Buffer
		code := s.run(context.WithoutCancel(t.Context()), &text, &summary, append([]string{"doctor", "--json"}, args...)...)
		if code == wantCode {
			require.NoError(t, json.Unmarshal([]byte(text.String()), &report), text.String())
			break
		}

		forgiven.commands.Add(1)
		require.True(t, try < doctorTries && strings.Contains(text.String(), "no answer in time"), "%d: %s", code, &text)
	}
	require.Len(t, report.Findings, report.OK+report.Warnings+report.Failed+report.Skipped)

	found := map[string]doctor.Finding{}
	for _, f := range report.Findings {
		name := strings.TrimSpace(f.Check + " " + f.On)
		require.NotContains(t, found, name, "duplicate finding")
		require.NotEmpty(t, f.Found)
		if f.Status == doctor.Warn || f.Status == doctor.Fail {
			require.NotEmpty(t, f.Change, name)
		}

		found[name] = f
	}

	return found
}

// Poison makes the database reject every order of a user until the function is called.
func Poison(t *testing.T, s *Stack, user string) func() {
	t.Helper()

	text := "CREATE TRIGGER poison BEFORE INSERT ON voucher_orders WHEN NEW.user_id = %s BEGIN SELECT RAISE(ABORT, 'poison'); END"
	if s.Setting("SECKILL_MYSQL_DSN") != "" {
		text = "CREATE TRIGGER poison BEFORE INSERT ON voucher_orders FOR EACH ROW " +
			"IF NEW.user_id = %s THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'poison'; END IF"
	}

	s.Exec(t, fmt.Sprintf(text, user))
	return func() { s.Exec(t, "DROP TRIGGER poison") }
}

// PlacePoisoned places an order that the database rejects and returns its id and that of its dead letter.
func PlacePoisoned(t *testing.T, p *Server, sale, token, admin string) (string, string) {
	t.Helper()

	order := p.Queue(t, token, sale)
	Eventually(t, "the order fails", func() bool {
		o, err := p.Order(t.Context(), token, order)
		return err == nil && o.Status == "failed" && o.Reason == "internal"
	})

	all := p.Items(t, Get("/admin/dead-letters", admin))
	require.Len(t, all, 1)
	require.Equal(t, order, all[0]["order_id"])
	require.Contains(t, all[0]["reason"], "poison")

	return order, all[0]["id"].(string)
}

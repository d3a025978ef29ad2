package rig

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/ops/doctor"
	"seckill/internal/ops/rush"
	"seckill/internal/sale/admission"
)

// LiveSale is a sale in lane queue with buyers that purchase and cancel continuously while a test damages the gate, and
// with other buyers that keep an active order.
type LiveSale struct {
	*Stack
	P    *Server
	Sale string
	Rdb  redis.UniversalClient
	// Orders that stay active.
	Buyers []rush.Order
	// Tokens of buyers without an order.
	NewTokens []string

	// Ends the shoppers.
	Stop func()
}

// StartLiveSale starts a server and a live sale.
func StartLiveSale(t *testing.T, s *Stack, shoppers int, pause time.Duration) *LiveSale {
	t.Helper()
	l := &LiveSale{Stack: s, P: s.Serve(t)}
	l.Sale = l.P.Sale(t, liveUnits)

	tokens := s.Tokens(t, liveBuyers+shoppers+2*liveUnits)
	for _, token := range tokens[:liveBuyers] {
		l.Buyers = append(l.Buyers, l.Order(t, token))
	}

	l.Rdb = s.Client(t)
	l.NewTokens = tokens[liveBuyers+shoppers:]

	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	for _, token := range tokens[liveBuyers : liveBuyers+shoppers] {
		wg.Go(func() { l.buyAndCancel(ctx, token, pause) })
	}

	l.Stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(l.Stop)

	return l
}

// Order places an order and waits until it is committed.
func (l *LiveSale) Order(t *testing.T, token string) rush.Order {
	t.Helper()
	o := l.P.Buy(t, token, l.Sale)
	return Answered(t, func() (rush.Order, error) { return l.P.Order(t.Context(), token, o.ID) })
}

// buyAndCancel repeats a purchase and its cancellation until ctx ends. The answers are not checked because they depend
// on the damage to the gate.
func (l *LiveSale) buyAndCancel(ctx context.Context, token string, pause time.Duration) {
	for ctx.Err() == nil {
		o, err := l.P.Place(ctx, token, l.Sale)
		var problem *rush.Problem
		if errors.As(err, &problem) && problem.Code == "duplicate_order" {
			o.ID = problem.OrderID
		}

		if o.ID != "" {
			_, _ = l.P.Cancel(ctx, token, o.ID)
		}

		_ = Sleep(ctx, pause)
	}
}

// Key returns a Redis key of the sale.
func (l *LiveSale) Key(name string) string {
	id, _ := strconv.ParseUint(l.Sale, 10, 64)
	return strings.TrimSuffix(admission.Streams()[id%16], "orders") + l.Sale + ":" + name
}

// SellOut sells the remaining units and requires that as many orders are active as there are units, with no findings
// left.
func (l *LiveSale) SellOut(t *testing.T) {
	t.Helper()
	l.Stop()
	RequireSettled(t, l.Stack)

	for _, token := range l.NewTokens {
		_, err := l.P.Place(t.Context(), token, l.Sale)
		if err != nil && !HasCode(err, "unavailable") && !HasCode(err, "overloaded") {
			RequireCode(t, "sold_out", err)
		}
	}

	RequireSettled(t, l.Stack)
	RequireStock(t, l.P.Client, l.Sale, 0)
	l.Verify(t)
	RequireNoFindings(t, l.Stack)
}

// WithoutBackgroundRepair returns a stack whose servers do not repair gates by themselves, and whose reconcile command
// uses short waits.
func WithoutBackgroundRepair(s *Stack) *Stack {
	return s.In("queue").With(EnvEvery+"=1h", EnvMinAge+"=2s", EnvPause+"=500ms", EnvLasting+"=2s")
}

// RequireSound requires that the sale has no findings and no violations while it goes on. On a busy machine an order may be
// on its way between the gate and the database for longer than the short waits of the test, so what concerns the gate counts
// if it stays. The database is right at any moment.
func (l *LiveSale) RequireSound(t *testing.T) {
	t.Helper()
	var code int
	var out string
	defer func() {
		if t.Failed() {
			t.Log(out)
		}
	}()

	Eventually(t, "no findings", func() bool {
		code, out = l.Run(t, "reconcile")
		return code == 0 && strings.Contains(out, ": 0 findings repaired, 0 left")
	})

	Eventually(t, "no violations", func() bool {
		code, out = l.Run(t, "verify")
		return code == 0 || regexp.MustCompile(`: I[1-4]: `).MatchString(out)
	})
	require.Zero(t, code, "a violation in the database")

	v := Answered(t, func() (rush.Voucher, error) { return l.P.Voucher(t.Context(), l.Sale) })
	require.GreaterOrEqual(t, v.Stock, int64(0))
}

const (
	liveUnits  = 60
	liveBuyers = 10
)

// Check is run for a command that checks the state. It repeats one that could not, because a server did not answer in time.
func (s *Stack) Check(t *testing.T, args ...string) (int, string) {
	t.Helper()

	code, output := s.Run(t, args...)
	for try := 1; code == ExitUnchecked && try < 5; try++ {
		Forgive(ForgivenCommand)
		code, output = s.Run(t, args...)
	}

	return code, output
}

// RequireNoFindings requires that reconcile reports no findings.
func RequireNoFindings(t *testing.T, s *Stack) {
	t.Helper()
	code, out := s.Check(t, "reconcile")
	require.Zero(t, code, out)
	require.Contains(t, out, ": 0 findings repaired, 0 left", out)
}

// Damage is a change of Redis that makes the gate of a live sale wrong.
type Damage struct {
	Name string
	// A finding that must be reported, possibly among others.
	Kind string
	Want func(l *LiveSale) []string
	Do   func(t *testing.T, l *LiveSale, rdb redis.UniversalClient)
}

// RequireNamed requires that reconcile without --apply reports a damage and leaves it in place. Under load it may need
// several runs: some counters can be compared only while they do not change.
func (l *LiveSale) RequireNamed(t *testing.T, d Damage) {
	t.Helper()
	var out string
	Eventually(t, d.Name+" is reported", func() bool {
		var code int
		code, out = l.Run(t, "reconcile", "--voucher", l.Sale)
		return code == ExitViolation && Finding(d.Kind).MatchString(out)
	})

	require.Regexp(t, Finding(d.Kind).String()+".*--apply repairs it", out, d.Name)

	if d.Want != nil {
		for _, want := range d.Want(l) {
			require.Contains(t, out, want, d.Name)
		}
	}
}

// RequireRepaired requires that nothing is left of the damages.
func (l *LiveSale) RequireRepaired(t *testing.T, d Damage) {
	t.Helper()
	repaired := false
	Eventually(t, d.Name+" is repaired", func() bool {
		code, out := l.Run(t, "reconcile", "--apply")
		repaired = repaired || regexp.MustCompile(Finding(d.Kind).String()+" .*repaired").MatchString(out)
		return code == 0 && repaired
	})
}

// Finding matches the row of a kind in the output table.
func Finding(kind string) *regexp.Regexp { return regexp.MustCompile(`(?m)^\d+ +` + kind + ` `) }

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
		Forgive(ForgivenCommand)
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

	text := s.doctorJSON(t, wantCode, args...)
	require.NoError(t, json.Unmarshal(text, &report), string(text))
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

// doctorJSON runs the doctor until its exit code is wantCode, and returns its report.
func (s *Stack) doctorJSON(t *testing.T, wantCode int, args ...string) []byte {
	t.Helper()
	for try := 1; ; try++ {
		cmd := s.command(t, append([]string{"doctor", "--json"}, args...)...)

		// The summary is on stderr.
		out, _ := cmd.Output()
		code := cmd.ProcessState.ExitCode()
		if code == wantCode {
			return out
		}

		Forgive(ForgivenCommand)
		require.True(t, try < doctorTries && strings.Contains(string(out), "no answer in time"), "%d: %s", code, out)
	}
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

// DeadLetters returns the items of the admin route.
func DeadLetters(t *testing.T, p *Server, admin string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for _, item := range p.Must(t, Get("/admin/dead-letters", admin))["items"].([]any) {
		all = append(all, item.(map[string]any))
	}
	return all
}

// PlacePoisoned places an order that the database rejects and returns its id and that of its dead letter.
func PlacePoisoned(t *testing.T, p *Server, sale, token, admin string) (string, string) {
	t.Helper()

	order := p.Queue(t, token, sale)
	Eventually(t, "the order fails", func() bool {
		o, err := p.Order(t.Context(), token, order)
		return err == nil && o.Status == "failed" && o.Reason == "internal"
	})

	all := DeadLetters(t, p, admin)
	require.Len(t, all, 1)
	require.Equal(t, order, all[0]["order_id"])
	require.Contains(t, all[0]["reason"], "poison")

	return order, all[0]["id"].(string)
}

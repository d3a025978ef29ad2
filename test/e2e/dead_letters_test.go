package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// poison makes the database reject every order of a user until cure is called.
func poison(t *testing.T, s *stack, user string) (cure func()) {
	t.Helper()
	text := "CREATE TRIGGER poison BEFORE INSERT ON voucher_orders WHEN NEW.user_id = %s BEGIN SELECT RAISE(ABORT, 'poison'); END"
	if s.setting("SECKILL_MYSQL_DSN") != "" {
		text = "CREATE TRIGGER poison BEFORE INSERT ON voucher_orders FOR EACH ROW " +
			"IF NEW.user_id = %s THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'poison'; END IF"
	}
	s.exec(t, fmt.Sprintf(text, user))
	return func() { s.exec(t, "DROP TRIGGER poison") }
}

// deadLetters returns the items of the admin route.
func deadLetters(t *testing.T, p *server, admin string) []map[string]any {
	t.Helper()
	a := p.answered(t, http.MethodGet, "/api/v1/admin/dead-letters", admin)
	require.Equal(t, http.StatusOK, a.status, a.body)
	var all []map[string]any
	for _, item := range a.body["items"].([]any) {
		all = append(all, item.(map[string]any))
	}
	return all
}

// placePoisoned places an order that the database rejects and returns its id and that of its dead letter.
func placePoisoned(t *testing.T, p *server, sale, token, admin string) (order, deadLetter string) {
	t.Helper()
	order = p.queue(t, token, sale)
	eventually(t, "the order fails", func() bool {
		o, err := p.Order(t.Context(), token, order)
		return err == nil && o.Status == "failed" && o.Reason == "internal"
	})
	all := deadLetters(t, p, admin)
	require.Len(t, all, 1)
	require.Equal(t, order, all[0]["order_id"])
	require.Contains(t, all[0]["reason"], "poison")
	return order, all[0]["id"].(string)
}

// TestDeadLetterIsReplayed replays an order that the database rejected, first while the sale is sold out.
func TestDeadLetterIsReplayed(t *testing.T) {
	t.Parallel()
	s := realStack(t).in("queue").with(envRedeliver + "=300ms")
	p := s.serve(t)
	sale, tokens, admin := p.sale(t, 1), s.tokens(t, 2), p.admin(t)
	ill, other := tokens[0], tokens[1]
	user := p.must(t, http.MethodGet, "/me", ill, nil)["id"].(string)
	cure := poison(t, s, user)

	order, deadLetter := placePoisoned(t, p, sale, ill, admin)
	code, out := s.run(t, "dead-letters", "list")
	require.Zero(t, code, out)
	for _, want := range []string{deadLetter, order, user, "poison"} {
		require.Contains(t, out, want)
	}
	s.verify(t)

	// The unit of the failed order is free again. Once another buyer has it, a replay fails.
	unit := p.buyReturned(t, other, sale)
	requireProblem(t, http.StatusConflict, "sold_out", p.answered(t, http.MethodPost, "/api/v1/admin/dead-letters/"+deadLetter+"/replay", admin))
	code, out = s.run(t, "dead-letters", "replay", deadLetter)
	require.Equal(t, 1, code)
	require.Contains(t, out, "sold out; the dead letter is kept")
	requireSettled(t, s)
	p.mustCancel(t, other, unit.ID)

	cure()
	code, out = s.run(t, "dead-letters", "replay", deadLetter)
	require.Zero(t, code, out)
	require.Contains(t, out, "order "+order)
	eventually(t, "the order is committed", func() bool {
		o, err := p.Order(t.Context(), ill, order)
		return err == nil && o.Status == "pending_payment"
	})
	require.Empty(t, deadLetters(t, p, admin))
	code, out = s.run(t, "dead-letters", "replay", deadLetter)
	require.Equal(t, 1, code)
	require.Contains(t, out, "not found")
	s.verify(t)
}

// TestDeadLetterIsDiscarded discards with the route and with the command.
func TestDeadLetterIsDiscarded(t *testing.T) {
	t.Parallel()
	s := realStack(t).in("queue").with(envRedeliver + "=300ms")
	p := s.serve(t)
	tokens, admin := s.tokens(t, 1), p.admin(t)
	poison(t, s, p.must(t, http.MethodGet, "/me", tokens[0], nil)["id"].(string))

	_, deadLetter := placePoisoned(t, p, p.sale(t, 1), tokens[0], admin)
	path := "/api/v1/admin/dead-letters/" + deadLetter + "/discard"
	discarded := p.postUntilAnswered(t, keyedPost{path: path, token: admin, key: "discard"})
	require.Equal(t, http.StatusNoContent, discarded.status, discarded.body)
	requireProblem(t, http.StatusNotFound, "not_found", p.answered(t, http.MethodPost, path, admin))

	_, deadLetter = placePoisoned(t, p, p.sale(t, 1), tokens[0], admin)
	code, out := s.run(t, "dead-letters", "discard", deadLetter)
	require.Zero(t, code, out)
	code, out = s.run(t, "dead-letters", "discard", deadLetter)
	require.Equal(t, 1, code)
	require.Contains(t, out, "not found")
	require.Empty(t, deadLetters(t, p, admin))
	s.verify(t)
}

// TestDeadLetterCommandErrors runs the command without a server, without Redis, and with invalid arguments.
func TestDeadLetterCommandErrors(t *testing.T) {
	t.Parallel()
	s := embeddedStack(t)
	code, out := s.run(t, "dead-letters", "list")
	require.Equal(t, 1, code)
	require.Contains(t, out, "no server runs on the data directory")
	code, out = s.with("SECKILL_REDIS_ADDRS="+freeAddr(t)).run(t, "dead-letters", "list")
	require.Equal(t, 1, code)
	require.Contains(t, out, "a dependency is unavailable")
	s.serve(t)
	code, out = s.run(t, "dead-letters", "list")
	require.Zero(t, code, out)
	require.Equal(t, 1, strings.Count(out, "\n"), "only the header: %s", out)
	code, out = s.run(t, "dead-letters", "list", "--limit", "501")
	require.Equal(t, 1, code)
	require.Contains(t, out, "between 1 and 500")
	code, out = s.run(t, "dead-letters", "discard", "nonsense")
	require.Equal(t, 1, code)
	require.Contains(t, out, "not found")
}

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// poison makes the database refuse every order of a user, until cure is called.
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

// letters returns what the admin's route lists.
func letters(t *testing.T, p *process, admin string) []map[string]any {
	t.Helper()
	a := p.send(t, http.MethodGet, "/api/v1/admin/dead-letters", admin)
	require.Equal(t, http.StatusOK, a.status, a.body)
	var all []map[string]any
	for _, item := range a.body["items"].([]any) {
		all = append(all, item.(map[string]any))
	}
	return all
}

// bury has an order of a poisoned buyer fail, and returns its id and that of its letter.
func bury(t *testing.T, p *process, sale, token, admin string) (order, letter string) {
	t.Helper()
	order = requireQueued(t, p.click(t, token, sale))
	eventually(t, "the order fails", func() bool {
		o, err := p.Order(t.Context(), token, order)
		return err == nil && o.Status == "failed" && o.Reason == "internal"
	})
	all := letters(t, p, admin)
	require.Len(t, all, 1)
	require.Equal(t, order, all[0]["order_id"])
	require.Contains(t, all[0]["reason"], "poison")
	return order, all[0]["id"].(string)
}

// TestDeadLetters follows an order that the database refuses to its grave, and back.
func TestDeadLetters(t *testing.T) {
	each(t, false, func(t *testing.T, s *stack) {
		s = s.in("queue").with(envRedeliver + "=300ms")
		p := s.serve(t, "")
		sale, tokens, admin := p.sale(t, 1), s.tokens(t, 2), p.admin(t)
		ill, other := tokens[0], tokens[1]
		user := p.send(t, http.MethodGet, "/api/v1/me", ill).body["id"].(string)
		cure := poison(t, s, user)

		order, letter := bury(t, p, sale, ill, admin)
		code, out := s.run(t, "dead-letters", "list")
		require.Zero(t, code, out)
		for _, want := range []string{letter, order, user, "poison"} {
			require.Contains(t, out, want)
		}
		s.verify(t)

		// Its unit is back: somebody else buys it, and a replay finds none.
		eventually(t, "the unit can be bought", func() bool {
			_, err := p.Place(t.Context(), other, sale)
			return err == nil
		})
		requireProblem(t, http.StatusConflict, "sold_out", p.send(t, http.MethodPost, "/api/v1/admin/dead-letters/"+letter+"/replay", admin))
		code, out = s.run(t, "dead-letters", "replay", letter)
		require.Equal(t, 1, code)
		require.Contains(t, out, "sold out; the dead letter is kept")
		requireSettled(t, s)
		held, err := p.Orders(t.Context(), other)
		require.NoError(t, err)
		_, err = p.Cancel(t.Context(), other, held[0].ID)
		require.NoError(t, err)

		cure()
		code, out = s.run(t, "dead-letters", "replay", letter)
		require.Zero(t, code, out)
		require.Contains(t, out, "order "+order)
		eventually(t, "the order is made after all", func() bool {
			o, err := p.Order(t.Context(), ill, order)
			return err == nil && o.Status == "pending_payment"
		})
		require.Empty(t, letters(t, p, admin))
		code, out = s.run(t, "dead-letters", "replay", letter)
		require.Equal(t, 1, code)
		require.Contains(t, out, "not found")
		s.verify(t)
	})
}

// TestDeadLettersAreDiscarded by the route and by the command.
func TestDeadLettersAreDiscarded(t *testing.T) {
	each(t, false, func(t *testing.T, s *stack) {
		s = s.in("queue").with(envRedeliver + "=300ms")
		p := s.serve(t, "")
		tokens, admin := s.tokens(t, 1), p.admin(t)
		poison(t, s, p.send(t, http.MethodGet, "/api/v1/me", tokens[0]).body["id"].(string))

		_, letter := bury(t, p, p.sale(t, 1), tokens[0], admin)
		path := "/api/v1/admin/dead-letters/" + letter + "/discard"
		require.Equal(t, http.StatusNoContent, p.send(t, http.MethodPost, path, admin).status)
		requireProblem(t, http.StatusNotFound, "not_found", p.send(t, http.MethodPost, path, admin))

		_, letter = bury(t, p, p.sale(t, 1), tokens[0], admin)
		code, out := s.run(t, "dead-letters", "discard", letter)
		require.Zero(t, code, out)
		code, out = s.run(t, "dead-letters", "discard", letter)
		require.Equal(t, 1, code)
		require.Contains(t, out, "not found")
		require.Empty(t, letters(t, p, admin))
		s.verify(t)
	})
}

// TestDeadLettersOfNobody: what the command says when there is nothing to look at, and nowhere to look.
func TestDeadLettersOfNobody(t *testing.T) {
	s := embeddedStack(t)
	code, out := s.run(t, "dead-letters", "list")
	require.Equal(t, 1, code)
	require.Contains(t, out, "no server runs on the data directory")
	code, out = s.with("SECKILL_REDIS_ADDRS="+freeAddr(t)).run(t, "dead-letters", "list")
	require.Equal(t, 1, code)
	require.Contains(t, out, "a dependency is unavailable")
	s.serve(t, "")
	code, out = s.run(t, "dead-letters", "list")
	require.Zero(t, code, out)
	require.Equal(t, 1, strings.Count(out, "\n"), "the header alone: %s", out)
	code, out = s.run(t, "dead-letters", "list", "--limit", "501")
	require.Equal(t, 1, code)
	require.Contains(t, out, "between 1 and 500")
	code, out = s.run(t, "dead-letters", "discard", "nonsense")
	require.Equal(t, 1, code)
	require.Contains(t, out, "not found")
}

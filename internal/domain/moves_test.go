package domain

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOrderAfterEvent: an event of an earlier move shows the order without the later moves.
func TestOrderAfterEvent(t *testing.T) {
	at := time.Now()
	for _, path := range [][]Move{
		{MovePay, MoveRedeem}, {MovePay, MoveRedeem, MoveUndoRedeem}, {MovePay, MoveRefund, MoveRefunded}, {MoveCancel}, {MoveExpire},
	} {
		o := Order{ID: 1, Status: OrderPendingPayment}
		states, types := []Order{o}, []EventType{EventCreated}
		for _, m := range path {
			m.Apply(&o, at)
			states, types = append(states, o), append(types, m.Event())
		}
		for i, typ := range types {
			if typ == MoveRedeem.Event() && o.RedeemedAt == nil { // the time went with the redemption
				states[i].RedeemedAt = nil
			}
			require.Equal(t, states[i], o.After(typ), "%v after %s", path, typ)
		}
	}
	require.Equal(t, []EventType{"paid", "cancelled", "expired", "redeemed", "refunding", "refunded", "unredeemed"}, []EventType{
		MovePay.Event(), MoveCancel.Event(), MoveExpire.Event(), MoveRedeem.Event(), MoveRefund.Event(), MoveRefunded.Event(), MoveUndoRedeem.Event(),
	})
}

var update = flag.Bool("update", false, "write the diagram of the moves into docs/orders.md")

func diagram() string {
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n  [*] --> " + OrderPendingPayment.String() + ": an order is placed\n")
	statuses := []OrderStatus{OrderPendingPayment}
	for _, m := range Moves() {
		unit := ""
		if m.ReturnsUnit() {
			unit = ", the unit returns"
		}
		b.WriteString("  " + m.From.String() + " --> " + m.To.String() + ": " + m.Name + unit + "\n")
		statuses = append(statuses, m.To)
	}
	drawn := map[OrderStatus]bool{}
	for _, s := range statuses {
		if s.Final() && !drawn[s] {
			drawn[s] = true
			b.WriteString("  " + s.String() + " --> [*]\n")
		}
	}
	b.WriteString("```\n")
	return b.String()
}

// docs/orders.md contains the diagram of the moves and describes each one. This writes the diagram:
// go test ./internal/domain -run InDocs -update
func TestMovesInDocs(t *testing.T) {
	const file, begin, end = "../../docs/orders.md", "<!-- moves: begin -->\n", "<!-- moves: end -->"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	was, tail, found := strings.Cut(rest, end)
	require.True(t, found)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(head+begin+diagram()+end+tail), 0o600))
		return
	}
	require.Equal(t, diagram(), was, "run the test with -update")
	for _, m := range Moves() {
		require.Contains(t, tail, "\n| `"+m.Name+"` | ", "the table describes every move")
	}
}

// The invariants require that no move starts from an inactive status and that a unit returns exactly when its order
// becomes inactive.
func TestMovesKeepTheInvariants(t *testing.T) {
	at := time.Unix(1794398400, 0)
	for _, m := range Moves() {
		require.True(t, m.From.Active(), "%s: no move starts from an order that has ended", m.Name)
		require.Equal(t, !m.To.Active(), m.ReturnsUnit(), m.Name)

		o := Order{Status: m.From, Slot: 3, PaidAt: &at, RedeemedAt: &at}
		m.Apply(&o, at)
		require.Equal(t, m.To, o.Status)
		require.Equal(t, m.To.Active(), o.Slot != 0, m.Name)
	}
}

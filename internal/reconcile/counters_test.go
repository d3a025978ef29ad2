package reconcile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
)

// TestComparisonToleratesQueuedAdmissions checks that queued admissions count as committed or not, and that any other
// difference is reported. It holds the wording.
func TestComparisonToleratesQueuedAdmissions(t *testing.T) {
	type level = domain.GateLevel
	for name, tc := range map[string]struct {
		gate          level
		stock, active int64
		blocks        bool
		want          string
	}{
		"equal":                  {level{Stock: 7, Held: 3}, 7, 3, false, ""},
		"queued, none committed": {level{Stock: 7, Held: 3, Queued: 2, Backlog: 2}, 9, 1, false, ""},
		"queued, some committed": {level{Stock: 7, Held: 3, Queued: 2, Backlog: 2}, 8, 2, false, ""},
		"queued, all committed":  {level{Stock: 7, Held: 3, Queued: 2, Backlog: 2}, 7, 3, false, ""},
		"unit lost":              {level{Stock: 6, Held: 3}, 7, 3, true, "the gate is missing 1 free unit"},
		"extra buyer":            {level{Stock: 7, Held: 4}, 7, 3, true, "the gate counts 1 nonexistent order"},
		"release lost":           {level{Stock: 6, Held: 4}, 7, 3, true, "the gate is missing 1 free unit; the gate counts 1 nonexistent order"},
		"release lost, with queued admissions": {level{Stock: 6, Held: 6, Queued: 2, Backlog: 2}, 9, 3, true,
			"the gate is missing 1 free unit; the gate counts 1 nonexistent order"},
		"queued, empty stream": {level{Stock: 5, Held: 5, Queued: 1}, 7, 3, true, "the gate is missing 2 free units; the gate counts 2 nonexistent orders"},
		"other orders":         {level{Stock: 7, Held: 3, Sum: 10}, 7, 3, true, "the gate counts other orders than the active ones"},
		"sold by another lane": {level{Stock: 7, Held: 3}, 6, 4, false, "the gate offers 1 nonexistent unit; the gate is missing 1 active order"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Comparison{drift: driftOf(tc.gate, SaleLevel{Stock: tc.stock, Active: tc.active}, openAdmissions(tc.gate))}
			require.Equal(t, tc.want, c.String())
			require.Equal(t, tc.blocks, c.Blocks())
			require.Equal(t, tc.want == "", c.Matches())
			units := CompareStock(tc.gate, tc.stock)
			require.Equal(t, c.drift.stock, units.drift.stock)
			require.Equal(t, c.drift.stock < 0, units.Blocks(), "only missing units block")
		})
	}
}

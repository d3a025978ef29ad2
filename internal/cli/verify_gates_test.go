package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/reconcile"
)

// TestCompareGateToleratesQueuedAdmissions checks that queued admissions count as committed or not, and that any other
// difference is reported.
func TestCompareGateToleratesQueuedAdmissions(t *testing.T) {
	for name, tc := range map[string]struct {
		gate          domain.GateLevel
		stock, active int64
		blocking      int
		harmless      int
	}{
		"equal":                                {domain.GateLevel{Stock: 7, Held: 3}, 7, 3, 0, 0},
		"queued, none committed":               {domain.GateLevel{Stock: 7, Held: 3, Queued: 2, Backlog: 2}, 9, 1, 0, 0},
		"queued, some committed":               {domain.GateLevel{Stock: 7, Held: 3, Queued: 2, Backlog: 2}, 8, 2, 0, 0},
		"queued, all committed":                {domain.GateLevel{Stock: 7, Held: 3, Queued: 2, Backlog: 2}, 7, 3, 0, 0},
		"unit lost":                            {domain.GateLevel{Stock: 6, Held: 3}, 7, 3, 1, 0},
		"extra buyer":                          {domain.GateLevel{Stock: 7, Held: 4}, 7, 3, 1, 0},
		"release lost":                         {domain.GateLevel{Stock: 6, Held: 4}, 7, 3, 2, 0},
		"release lost, with queued admissions": {domain.GateLevel{Stock: 6, Held: 6, Queued: 2, Backlog: 2}, 9, 3, 2, 0},
		"queued, empty stream":                 {domain.GateLevel{Stock: 6, Held: 4, Queued: 1}, 7, 3, 2, 0},
		"other orders":                         {domain.GateLevel{Stock: 7, Held: 3, Sum: 10}, 7, 3, 1, 0},
		"sold by another lane":                 {domain.GateLevel{Stock: 7, Held: 3}, 6, 4, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			d := compareGate(tc.gate, reconcile.SaleLevel{Stock: tc.stock, Active: tc.active})
			require.Len(t, d.blocking, tc.blocking, "%s", d)
			require.Len(t, d.harmless, tc.harmless, "%s", d)
			require.Equal(t, tc.blocking+tc.harmless == 0, d.matches())
		})
	}
}

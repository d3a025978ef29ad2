package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/reconcile"
	"seckill/internal/service"
)

// TestCompareGate: queued admissions may be orders already or not; everything else that differs is told.
func TestCompareGate(t *testing.T) {
	for name, tc := range map[string]struct {
		gate          service.GateLevel
		stock, active int64
		wrong, odd    int
	}{
		"equal":                    {service.GateLevel{Stock: 7, Held: 3}, 7, 3, 0, 0},
		"queued, none committed":   {service.GateLevel{Stock: 7, Held: 3, Queued: 2, Backlog: 2}, 9, 1, 0, 0},
		"queued, some committed":   {service.GateLevel{Stock: 7, Held: 3, Queued: 2, Backlog: 2}, 8, 2, 0, 0},
		"queued, all committed":    {service.GateLevel{Stock: 7, Held: 3, Queued: 2, Backlog: 2}, 7, 3, 0, 0},
		"a unit lost":              {service.GateLevel{Stock: 6, Held: 3}, 7, 3, 1, 0},
		"a buyer too many":         {service.GateLevel{Stock: 7, Held: 4}, 7, 3, 1, 0},
		"a release lost":           {service.GateLevel{Stock: 6, Held: 4}, 7, 3, 2, 0},
		"a release lost in a rush": {service.GateLevel{Stock: 6, Held: 6, Queued: 2, Backlog: 2}, 9, 3, 2, 0},
		"queued in no stream":      {service.GateLevel{Stock: 6, Held: 4, Queued: 1}, 7, 3, 2, 0},
		"other orders":             {service.GateLevel{Stock: 7, Held: 3, Sum: 10}, 7, 3, 1, 0},
		"sold by another lane":     {service.GateLevel{Stock: 7, Held: 3}, 6, 4, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			v := compareGate(tc.gate, reconcile.SaleLevel{Stock: tc.stock, Active: tc.active})
			require.Len(t, v.wrong, tc.wrong, "%s", v)
			require.Len(t, v.odd, tc.odd, "%s", v)
			require.Equal(t, tc.wrong+tc.odd == 0, v.fits())
		})
	}
}

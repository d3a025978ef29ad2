package rig

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/kit/loop"
	"seckill/internal/ops/rush"
)

// RequireStock waits until the API shows a stock. A cached value may be a second old.
func RequireStock(t *testing.T, c *rush.Client, sale string, stock int64) {
	t.Helper()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		v, err := c.Voucher(context.Background(), sale)
		assert.NoError(t, err)
		assert.Equal(t, stock, v.Stock)
		assert.Equal(t, stock == 0, v.State == "sold_out")
	}, time.Minute, 50*time.Millisecond)
}

// Sleep is [loop.Sleep].
func Sleep(ctx context.Context, d time.Duration) error { return loop.Sleep(ctx, d) }

// Room publishes a sale with a waiting room.
func (p *Shop) Room(t *testing.T, o Offer, entry map[string]any) string {
	t.Helper()
	sale := p.Publish(t, o)
	if entry == nil {
		entry = map[string]any{}
	}

	entry["mode"] = "room"
	p.Change(t, sale, map[string]any{"entry": entry})

	return sale
}

// PassMode is the change of a sale that then needs passes, which are valid for an hour.
var PassMode = map[string]any{"entry": map[string]any{"mode": "pass", "pass_ttl": 3600}}

// HasCode reports whether an error is an answer with this code.
func HasCode(err error, code string) bool {
	var p *rush.Problem
	return errors.As(err, &p) && p.Code == code
}

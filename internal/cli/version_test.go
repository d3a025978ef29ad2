package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/internal/version"
)

func TestVersionNeedsNoValidConfiguration(t *testing.T) {
	t.Setenv("SECKILL_ORDER_LANE", "nonsense")
	for _, arg := range []string{"version", "--version"} {
		var out, errs bytes.Buffer
		require.Zero(t, Run(t.Context(), []string{arg}, &out, &errs, app.Tuning{}))
		require.Equal(t, version.String()+"\n", out.String())
		require.Empty(t, errs.String())
	}
}

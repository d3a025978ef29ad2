package handler

import (
	"log/slog"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCostsHaveRoutes: a cost of a route that does not exist has no effect.
func TestCostsHaveRoutes(t *testing.T) {
	h, err := New(Config{Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	routes := map[[2]string]bool{}
	for _, r := range h.(*gin.Engine).Routes() {
		routes[[2]string{r.Method, r.Path}] = true
	}
	for route, price := range costs {
		assert.True(t, routes[route], "%s", route)
		assert.LessOrEqual(t, price.tokens, userBurst, "%s", route)
	}
}

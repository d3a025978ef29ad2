package domain

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDistance(t *testing.T) {
	hangzhou, shanghai := Place{120.155, 30.274}, Shop{X: 121.474, Y: 31.230}
	require.InDelta(t, 164_500, shanghai.Distance(hangzhou), 1000)
	require.Zero(t, shanghai.Distance(Place{121.474, 31.230}))
	require.InDelta(t, 20_015_087, (&Shop{X: -60, Y: -30}).Distance(Place{120, 30}), 1, "antipodes")
	require.InDelta(t, 22.2e3, (&Shop{X: 179.9}).Distance(Place{-179.9, 0}), 100, "across the date line")
}

package sysinfo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	stat := "7 (a (b) c) S 1 7 7 0 -1 4194560 900 0 5 0 250 50 0 0 20 0 9 0 12345"
	assert.Equal(t, 3*time.Second, parseStat([]byte(stat)))
	assert.Zero(t, parseStat([]byte("7 (cut")))
}

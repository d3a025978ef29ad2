package app

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMaxConnections(t *testing.T) {
	for files, want := range map[uint64]int{256: 192, 1024: 768, 4096: 3072, 65_536: 64_512} {
		assert.Equal(t, want, maxConnections(files))
	}
}

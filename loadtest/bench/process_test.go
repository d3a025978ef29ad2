package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestListenAddr(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"seckill listens on http://127.0.0.1:80 (lane batch)": "127.0.0.1:80", "reference listens on http://127.0.0.1:81": "127.0.0.1:81", "other": "",
	} {
		addr, ok := listenAddr(line)
		assert.Equal(t, want, addr)
		assert.Equal(t, want != "", ok, line)
	}
}

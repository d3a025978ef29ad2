package testenv

import (
	"context"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/test/servers"
)

func TestMain(m *testing.M) { Main(m) }

func TestMissingProgramSkipsOrFails(t *testing.T) {
	_, err := servers.FindBinary("no-such-server")
	require.ErrorIs(t, err, exec.ErrNotFound)
	require.ErrorContains(t, err, "make deps")

	for _, c := range []struct {
		require, want string
		err           error
	}{
		{"", "skip", err},
		{"1", "fatal", err},
		{"", "fatal", context.DeadlineExceeded},
		{"", "", nil},
	} {
		t.Setenv(EnvRequire, c.require)
		tb := &fakeTB{TB: t}
		done := make(chan struct{})
		go func() { defer close(done); need(tb, c.err) }()
		<-done
		assert.Equal(t, c.want, tb.ended)
	}
}

// fakeTB records how a test ended.
type fakeTB struct {
	testing.TB
	ended string
}

func (f *fakeTB) Skip(...any)           { f.ended = "skip"; runtime.Goexit() }
func (f *fakeTB) Skipf(string, ...any)  { f.Skip() }
func (f *fakeTB) Fatal(...any)          { f.ended = "fatal"; runtime.Goexit() }
func (f *fakeTB) Fatalf(string, ...any) { f.Fatal() }

func TestLazyStartsOnce(t *testing.T) {
	tries := 0
	var l lazy[*Database]
	for range 2 {
		_, err := l.get(func(context.Context) (*Database, error) {
			tries++
			return nil, exec.ErrNotFound
		})
		require.ErrorIs(t, err, exec.ErrNotFound)
	}
	assert.Equal(t, 1, tries)
	require.NoError(t, l.stop())
}

func BenchmarkStart(b *testing.B) {
	for _, kind := range Kinds(b) {
		kind.shared(b) // creates the template
		b.Run(string(kind), func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, kind.Start(b).Stop())
			}
		})
	}
	b.Run("redis", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, StartRedis(b).Stop())
		}
	})
	b.Run("database", func(b *testing.B) {
		for b.Loop() {
			MariaDB.DSN(b)
		}
	})
}

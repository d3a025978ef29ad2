package redisconn

import (
	"context"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSlotMapIsReloadedAfterRefusedConnection(t *testing.T) {
	t.Parallel()
	reloads := 0
	hook := clusterHook{reload: func(context.Context) { reloads++ }}
	var answer error
	process := hook.ProcessHook(func(_ context.Context, cmd redis.Cmder) error {
		require.True(t, cmd.NoRetry())
		return answer
	})
	pipeline := hook.ProcessPipelineHook(func(context.Context, []redis.Cmder) error { return answer })
	cmd := redis.NewCmd(t.Context(), "ping")
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for want, err := range []error{nil, refused, refused} {
		answer = err
		require.Equal(t, err, process(t.Context(), cmd))
		require.Equal(t, want, reloads)
	}
	require.Equal(t, refused, pipeline(t.Context(), []redis.Cmder{cmd}))
	require.Equal(t, 3, reloads)
	for _, answer = range []error{io.EOF, redis.Nil, &net.OpError{Op: "read", Err: syscall.ECONNRESET}} {
		require.ErrorIs(t, process(t.Context(), cmd), answer)
	}
	require.Equal(t, 3, reloads)
}

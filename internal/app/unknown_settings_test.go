package app

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnknownSettings(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"SECKILL_MYSQL_DNS", "SECKILL_PORT", "SECKILL_REDIS_ADDR", "SECKILL_TIMEZONE_FILE"}, unknownSettings([]string{
		"PATH=/bin", "SECKILL_ADDR=:8080", "SECKILL_MYSQL_DSN=x", "SECKILL_MYSQL_DSN_FILE=/x", "SECKILL_JWT_SECRET_FILE=/y", "SECKILL_TEST=full",
		"SECKILL_REDIS_ADDR=localhost", "SECKILL_MYSQL_DNS=x", "SECKILL_PORT=8080", "SECKILL_TIMEZONE_FILE=/z", "OTHER_SECKILL_X=1",
	}))
	require.Empty(t, unknownSettings([]string{
		"SECKILL_PORT=tcp://10.0.0.1:80", "SECKILL_SERVICE_HOST=10.0.0.1", "SECKILL_PORT_80_TCP_ADDR=10.0.0.1", "SECKILL_SERVICE_PORT_HTTP=80",
	}))
}

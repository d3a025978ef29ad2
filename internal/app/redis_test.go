package app

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRedisOptions(t *testing.T) {
	t.Parallel()
	c := Config{RedisAddrs: []string{"rediss://ann:p%40ss@a:1/7"}, RedisUsername: "bob", RedisPassword: "other"}
	opts, err := c.SharedRedisOptions()
	require.NoError(t, err)
	assert.Equal(t, []string{"a:1"}, opts.Addrs)
	assert.Equal(t, []any{"ann", "p@ss", 7}, []any{opts.Username, opts.Password, opts.DB})
	require.NotNil(t, opts.TLSConfig)
	assert.Empty(t, opts.TLSConfig.ServerName, "each server is verified by its own name")
	assert.Equal(t, []string{"a:1"}, c.redisServers())
	assert.Equal(t, []string{"other", "p@ss"}, c.RedisSecrets())

	c.RedisAddrs = []string{"redis://:p@a", "b:2", "redis://:p@c:3"}
	opts, err = c.SharedRedisOptions()
	require.NoError(t, err)
	assert.Equal(t, []string{"a:6379", "b:2", "c:3"}, opts.Addrs)
	assert.Equal(t, []string{"bob", "p"}, []string{opts.Username, opts.Password})
	assert.Nil(t, opts.TLSConfig)

	c.RedisAddrs, c.RedisSentinel = []string{"redis://eve:s@a:1/7", "b:2"}, "mymaster"
	opts, err = c.SharedRedisOptions()
	require.NoError(t, err)
	assert.Equal(t, []string{"mymaster", "eve", "s", "bob", "other"},
		[]string{opts.MasterName, opts.SentinelUsername, opts.SentinelPassword, opts.Username, opts.Password})
	assert.Equal(t, 7, opts.DB)
}

func TestRedisAddressErrorsHideThePassword(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{
		"redis://u:hunter2@", "redis://u:hunter2/x@a:1", "redis://:hunter2", "redis://u:12/hunter2@a", "redis://u:hunter2%zz@a:1",
		"redis://u:p#hunter2@a:1", "redis://u:p?hunter2@a:1", "u:hunter2@a:1", "valkey://u:hunter2@a:1", "unix://u:hunter2@/sock",
		"redis://u:hunter2@a:1/x", "redis://u:hunter2@a:1/-1", "redis://u:hunter2@a:99999",
	} {
		_, err := Config{RedisAddrs: []string{addr}}.SharedRedisOptions()
		require.Error(t, err, addr)
		require.NotContains(t, err.Error(), "hunter2")
		_, err = Config{LockNodes: []string{addr}, DataDir: "d", PayTimeout: 1e9, QueueBacklog: 1}.Finish()
		require.ErrorContains(t, err, "node 1", addr)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

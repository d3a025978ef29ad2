// Package redisconn opens connections to Redis: to a server, to the master that Sentinels name, or to a cluster. No
// command is executed twice.
package redisconn

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// clusterReload is the interval at which a cluster's slot map is read again. It bounds how long commands are sent to a
// dead master, which answers no MOVED, after its replica has taken over.
const clusterReload = time.Second

// Options returns the options of every client, without the servers. No command is repeated.
func Options() *redis.UniversalOptions {
	return &redis.UniversalOptions{
		MaxRetries:            -1,
		DialerRetries:         1,
		ContextTimeoutEnabled: true,
		DialTimeout:           time.Second,
		ReadTimeout:           1500 * time.Millisecond,
		WriteTimeout:          time.Second,
		PoolTimeout:           2 * time.Second,
		PoolSize:              128,
		MinIdleConns:          4,
		// No CLIENT SETINFO: Redis 6.2 and the embedded Redis lack it.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Roots returns the certificates in a file in PEM, or nil for an empty name: those of the system.
func Roots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}

	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}

	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", file)
	}

	return roots, nil
}

// Open returns a client for one server, for the master that Sentinels name, or for a cluster. It does not connect.
// The client never repeats a command: one whose reply was lost may have been executed, so the error is returned.
func Open(opts *redis.UniversalOptions) redis.UniversalClient {
	switch {
	case opts.MasterName != "":
		return redis.NewFailoverClient(opts.Failover())
	case len(opts.Addrs) == 1:
		return redis.NewClient(opts.Simple())
	}

	cluster := opts.Cluster()
	cluster.ClusterStateReloadInterval = clusterReload

	// They do not support wrapped commands; Ping reaches every master without them.
	cluster.DisableRoutingPolicies = true

	rdb := redis.NewClusterClient(cluster)
	rdb.AddHook(clusterHook{})
	return rdb
}

// clusterHook marks every command of a cluster client, pipelined or not, as not repeatable. MaxRetries applies to the
// clients of the nodes only. The cluster client's own loop is needed for MOVED and ASK, and repeats unmarked commands
// after EOF and timeouts.
type clusterHook struct{}

// noRetry is a command that must not be repeated.
type noRetry struct{ redis.Cmder }

// NoRetry implements redis.Cmder.
func (noRetry) NoRetry() bool { return true }

// DialHook implements redis.Hook.
func (clusterHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (clusterHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return next(ctx, noRetry{cmd}) }
}

// ProcessPipelineHook implements redis.Hook.
func (clusterHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		marked := make([]redis.Cmder, len(cmds))
		for i, cmd := range cmds {
			marked[i] = noRetry{cmd}
		}
		return next(ctx, marked)
	}
}

// Ping returns nil if the server, or every master of a cluster, answers.
func Ping(ctx context.Context, rdb redis.UniversalClient) error {
	return EachMaster(ctx, rdb, func(ctx context.Context, node redis.UniversalClient) error { return node.Ping(ctx).Err() })
}

// EachMaster calls do with the server, or with all masters of a cluster at the same time.
func EachMaster(ctx context.Context, rdb redis.UniversalClient, do func(ctx context.Context, node redis.UniversalClient) error) error {
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return do(ctx, node) })
	}
	return do(ctx, rdb)
}

const (
	// healthCheck is the interval at which an idle subscription is checked, and with it the time until it reconnects.
	healthCheck = 3 * time.Second
	// maxReceived is the number of messages that wait for Receive; later ones are lost.
	maxReceived = 1000
)

// Receive calls handle for each message on a channel until ctx ends, and then returns nil. It reconnects after a failure;
// messages that are published meanwhile are lost. If the client is closed first, the error is redis.ErrClosed.
func Receive(ctx context.Context, rdb redis.UniversalClient, channel string, handle func(message string)) error {
	sub := rdb.Subscribe(ctx, channel)
	messages := sub.Channel(redis.WithChannelHealthCheckInterval(healthCheck), redis.WithChannelSize(maxReceived))

	for {
		select {
		case <-ctx.Done():
			err := sub.Close()

			// The client's goroutine closes the channel when it ends.
			for range messages {
			}
			return err
		case m, open := <-messages:
			if !open {
				return errors.Join(redis.ErrClosed, sub.Close())
			}
			handle(m.Payload)
		}
	}
}

// hashTags is the number of the tags s0, s1, ... of the keys of sales. A master of a cluster that has sales has one of them.
const hashTags = 16

// Ready returns nil if the server accepts writes, or every master of a cluster answers. The write appends to a list that
// does not exist, so it changes nothing. A replica refuses it, and so does a master that has too few replicas, whose disk
// or memory is full, or whose cluster is down.
func Ready(ctx context.Context, rdb redis.UniversalClient) error {
	if _, ok := rdb.(*redis.ClusterClient); ok {
		return Ping(ctx, rdb)
	}
	return accepts(ctx, rdb, 0)
}

// NodeReady is Ready for a node of a cluster. It writes to a key that the node has, if there is one.
func NodeReady(ctx context.Context, node redis.UniversalClient) error {
	for tag := range hashTags {
		err := accepts(ctx, node, tag)
		if !redis.HasErrorPrefix(err, "MOVED") && !redis.HasErrorPrefix(err, "ASK ") {
			return err
		}
	}
	return nil
}

func accepts(ctx context.Context, rdb redis.UniversalClient, tag int) error {
	err := rdb.RPushX(ctx, fmt.Sprintf("seckill:{s%d}:absent", tag), "").Err()
	switch {
	case redis.HasErrorPrefix(err, "NOPERM"):
		// An ACL with other keys than the documented ones says nothing about the server.
		return Ping(ctx, rdb)
	case errors.Is(err, redis.Nil):
		return fmt.Errorf("no Sentinel that answers knows a master of this name: %w", err)
	}
	return err
}

// LogTo sends the messages of go-redis, one per broken connection, to log at level debug. Relevant errors are
// returned by the commands and reported by their callers.
func LogTo(log *slog.Logger) { redis.SetLogger(debugLogger{log}) }

type debugLogger struct{ log *slog.Logger }

// Printf implements the logger of go-redis.
func (q debugLogger) Printf(ctx context.Context, format string, v ...any) {
	q.log.DebugContext(ctx, "go-redis: "+fmt.Sprintf(format, v...))
}

package admission

import (
	"encoding/base64"
	"fmt"
	"strconv"

	"seckill/internal/domain"
)

// shards is the number of hash slots that vouchers are spread over, and of streams. It must never change: the names of
// all keys depend on it.
const shards = 16

// Group is the consumer group of the streams. common.lua repeats it.
const Group = "workers"

// shard is one of the hash slots.
type shard int

// shardOf returns the shard with a voucher's keys.
func shardOf(voucherID int64) shard { return shard(uint64(voucherID) % shards) } //nolint:gosec // only the remainder matters

// prefix begins the keys of a shard. The text between the braces determines the slot.
func (s shard) prefix() string { return "seckill:{s" + strconv.Itoa(int(s)) + "}:" }

// stream is the key of the stream of unsettled admissions.
func (s shard) stream() string { return s.prefix() + "orders" }

// dead is the key of the stream of dead letters.
func (s shard) dead() string { return s.prefix() + "dead" }

// queued is the key of a hash: user id -> rows of the user's admissions in the stream. Its length is the backlog.
func (s shard) queued() string { return s.prefix() + "queued" }

// failed is the key of a hash: order id -> reason, time and row of a user's failed admission. It expires.
func (s shard) failed(userID int64) string {
	return s.prefix() + "user:" + strconv.FormatInt(userID, 10)
}

// requestKey is the key of a string: the order that was placed under a user's request key, and the request's hash. It
// expires after 10 s.
func (s shard) requestKey(userID int64, k *domain.RequestKey) string {
	return s.prefix() + "key:" + strconv.FormatInt(userID, 10) + ":" + base64.RawURLEncoding.EncodeToString(k.Hash[:])
}

// gateKeys are the keys of a voucher and of its shard.
type gateKeys struct {
	stock   string // string: units that may still be admitted; the gate is loaded while it exists
	buyers  string // hash: user id -> order ids held, comma-separated, oldest first
	meta    string // hash: held, queued, version, sum, line, built
	loading string // string: the token of the running load
	notes   string // list: changes of the gate during a load
	shard   shard
}

func keysOf(voucherID int64) gateKeys { return keysIn(shardOf(voucherID), voucherID) }

func keysIn(s shard, voucherID int64) gateKeys {
	prefix := s.prefix() + strconv.FormatInt(voucherID, 10) + ":"
	return gateKeys{
		stock: prefix + "stock", buyers: prefix + "buyers", meta: prefix + "meta",
		loading: prefix + "loading", notes: prefix + "notes", shard: s,
	}
}

// table is the key under which the load with this token builds the buyers.
func (k gateKeys) table(token string) string { return k.buyers + ":" + token }

// list returns the keys of common.lua in its order, followed by a script's own keys.
func (k gateKeys) list(more ...string) []string {
	s := k.shard
	return append([]string{k.stock, k.buyers, k.meta, k.loading, k.notes, s.stream(), s.queued(), s.dead()}, more...)
}

// OutcomeChannels is a pattern that matches the outcome channels of all instances.
const OutcomeChannels = outcomePrefix + "*"

const outcomePrefix = "seckill:outcomes:"

// outcomeChannel returns the name of an instance's channel.
func outcomeChannel(instance string) string { return outcomePrefix + instance }

// Streams returns the keys of the streams of admissions, one per shard.
func Streams() []string { return keyPerShard(shard.stream) }

// DeadStreams returns the keys of the streams of dead letters, in the order of Streams.
func DeadStreams() []string { return keyPerShard(shard.dead) }

// QueuedTickets returns the keys of the hashes of queued tickets, in the order of Streams.
func QueuedTickets() []string { return keyPerShard(shard.queued) }

func keyPerShard(key func(shard) string) []string {
	keys := make([]string, shards)
	for s := range shards {
		keys[s] = key(shard(s))
	}
	return keys
}

// shardOfStream returns the shard of one of the Streams.
func shardOfStream(stream string) (shard, error) {
	for s := range shard(shards) {
		if s.stream() == stream {
			return s, nil
		}
	}
	return 0, fmt.Errorf("admission: %q is not a stream of admissions", stream)
}

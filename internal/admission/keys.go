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

// shardOf returns the shard with the keys of a voucher's first segment, which is the only one by default.
func shardOf(voucherID int64) shard { return shard(uint64(voucherID) % shards) } //nolint:gosec // only the remainder matters

// home returns the segment, below n, in which a user's orders of a voucher are kept. It must never change. The user ids
// are mixed (splitmix64), so that neither consecutive nor patterned ids gather in one segment.
func home(userID int64, n int) int {
	x := uint64(userID) + 0x9e3779b97f4a7c15 //nolint:gosec // any 64 bits
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) % uint64(n)) //nolint:gosec // n is at most 16
}

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

// gateKeys are the keys of one segment of a voucher, and of its shard.
type gateKeys struct {
	stock   string // string: units that may still be admitted; the gate is loaded while it exists
	buyers  string // hash: user id -> order ids held, comma-separated, oldest first
	meta    string // hash: held, queued, version, sum, line, built
	loading string // string: the token of the running load
	notes   string // list: changes of the gate during a load
	loans   string // hash: epoch, to:<shard>, from:<shard>; see segments.go
	shard   shard
}

// segmentsOf returns the keys of the n segments of a voucher, which are in consecutive shards.
func segmentsOf(voucherID int64, n int) []gateKeys {
	all := make([]gateKeys, n)
	for i := range all {
		all[i] = keysIn((shardOf(voucherID)+shard(i))%shards, voucherID)
	}
	return all
}

func keysIn(s shard, voucherID int64) gateKeys {
	prefix := s.prefix() + strconv.FormatInt(voucherID, 10) + ":"
	return gateKeys{
		stock: prefix + "stock", buyers: prefix + "buyers", meta: prefix + "meta",
		loading: prefix + "loading", notes: prefix + "notes", loans: prefix + "loans", shard: s,
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

var streamShards = func() map[string]shard {
	all := map[string]shard{}
	for s := range shard(shards) {
		all[s.stream()] = s
	}
	return all
}()

// shardOfStream returns the shard of one of the Streams.
func shardOfStream(stream string) (shard, error) {
	if s, ok := streamShards[stream]; ok {
		return s, nil
	}
	return 0, fmt.Errorf("admission: %q is not a stream of admissions", stream)
}

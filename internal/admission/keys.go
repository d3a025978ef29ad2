package admission

import (
	"encoding/base64"
	"fmt"
	"strconv"

	"seckill/internal/service"
)

// shards is the number of hash slots that vouchers are spread over, and of streams. It is part of the data: with
// another number nothing in Redis would be found again.
const shards = 16

// Group is the consumer group of the streams; common.lua has it too.
const Group = "workers"

// shard is one of the hash slots.
type shard int

// shardOf says where a voucher's keys are.
func shardOf(voucherID int64) shard { return shard(uint64(voucherID) % shards) } //nolint:gosec // only the rest matters

// prefix begins the keys of a shard; what is between the braces decides the slot.
func (s shard) prefix() string { return "seckill:{s" + strconv.Itoa(int(s)) + "}:" }

// stream holds the admissions that are not settled.
func (s shard) stream() string { return s.prefix() + "orders" }

// dead is a stream as well: of the entries that could not be turned into orders.
func (s shard) dead() string { return s.prefix() + "dead" }

// queued is a hash: user id -> the rows of his admissions in the stream. Its length is the backlog.
func (s shard) queued() string { return s.prefix() + "queued" }

// failed is a hash: order id -> reason, time and row of one user's admissions that failed. It expires.
func (s shard) failed(userID int64) string {
	return s.prefix() + "user:" + strconv.FormatInt(userID, 10)
}

// requestKey is a string: the order that was placed under a user's request key, and what that request said. It expires
// after seconds.
func (s shard) requestKey(userID int64, k *service.RequestKey) string {
	return s.prefix() + "key:" + strconv.FormatInt(userID, 10) + ":" + base64.RawURLEncoding.EncodeToString(k.Hash[:])
}

// gateKeys are the keys of a voucher and of its shard.
type gateKeys struct {
	stock   string // string: units that may be admitted; that it exists means that the gate is loaded
	buyers  string // hash: user id -> order ids held, comma-separated, the oldest first
	meta    string // hash: held, queued, version, sum, line, built
	loading string // string: the token of the loader at work
	notes   string // list: what happens to the gate while a loader is at work
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

// table is where a loader builds the buyers.
func (k gateKeys) table(token string) string { return k.buyers + ":" + token }

// list is what every script gets, in the order that common.lua knows, and after it the script's own keys.
func (k gateKeys) list(more ...string) []string {
	s := k.shard
	return append([]string{k.stock, k.buyers, k.meta, k.loading, k.notes, s.stream(), s.queued(), s.dead()}, more...)
}

// OutcomeChannels is a pattern for the channels to which the instances that run a Gate are subscribed.
const OutcomeChannels = outcomePrefix + "*"

const outcomePrefix = "seckill:outcomes:"

// outcomes is the channel of an instance.
func outcomes(instance string) string { return outcomePrefix + instance }

// Streams names the streams of the admissions, one for each shard.
func Streams() []string { return each(shard.stream) }

// DeadStreams names the streams of the dead letters, in the order of Streams.
func DeadStreams() []string { return each(shard.dead) }

// QueuedTickets names the hashes of the users who have something queued, in the order of Streams.
func QueuedTickets() []string { return each(shard.queued) }

func each(key func(shard) string) []string {
	keys := make([]string, shards)
	for s := range shards {
		keys[s] = key(shard(s))
	}
	return keys
}

// shardOfStream finds the shard of a stream that Streams named.
func shardOfStream(stream string) (shard, error) {
	for s := range shard(shards) {
		if s.stream() == stream {
			return s, nil
		}
	}
	return 0, fmt.Errorf("admission: %q is no stream of the gate", stream)
}

package admission

import (
	"encoding/base64"
	"fmt"
	"strconv"

	"seckill/internal/domain"
)

// Group is the consumer group of the streams. common.lua repeats it.
const Group = "workers"

// Shards is the number of hash slots that vouchers are spread over, and of streams. It must never change: the names of
// all keys depend on it.
const Shards Shard = 16

// Shard is the number, from 0, of one of the hash slots.
type Shard int

// prefix begins the keys of a shard. The text between the braces determines the slot.
func (s Shard) prefix() string { return "seckill:{s" + strconv.Itoa(int(s)) + "}:" }

// Stream is the key of the stream of unsettled admissions.
func (s Shard) Stream() string { return s.prefix() + "orders" }

// Dead is the key of the stream of dead letters.
func (s Shard) Dead() string { return s.prefix() + "dead" }

// Queued is the key of a hash: user id -> rows of the user's admissions in the stream. Its length is the backlog.
func (s Shard) Queued() string { return s.prefix() + "queued" }

// Failed is the key of a hash: order id -> reason, time and row of a user's failed admission. It expires.
func (s Shard) Failed(userID int64) string {
	return s.prefix() + "user:" + strconv.FormatInt(userID, 10)
}

// RequestKey is the key of a string: the order that was placed under a user's request key, and the request's hash. It
// expires after 10 s.
func (s Shard) RequestKey(userID int64, k *domain.RequestKey) string {
	return s.prefix() + "key:" + strconv.FormatInt(userID, 10) + ":" + base64.RawURLEncoding.EncodeToString(k.Hash[:])
}

// Gate begins the keys of a voucher's gate in the shard.
func (s Shard) Gate(voucherID int64) string {
	return s.prefix() + strconv.FormatInt(voucherID, 10) + ":"
}

// Meta is the key of a hash with what is known of a voucher's gate in the shard; see common.lua.
func (s Shard) Meta(voucherID int64) string { return s.Gate(voucherID) + "meta" }

func shardOf(voucherID int64) Shard {
	return Shard(uint64(voucherID) % uint64(Shards)) //nolint:gosec // only the remainder matters
}

func segmentShard(voucherID int64, segment int) Shard {
	return (shardOf(voucherID) + Shard(segment)) % Shards
}

// home returns the segment, below n, in which a user's orders of a voucher are kept. It must never change. The user ids
// are mixed (splitmix64), so that neither consecutive nor patterned ids gather in one segment.
func home(userID int64, n int) int {
	x := uint64(userID) + 0x9e3779b97f4a7c15 //nolint:gosec // any 64 bits
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) % uint64(n)) //nolint:gosec // n is at most 16
}

// gateKeys are the keys of one segment of a voucher, and of its shard.
type gateKeys struct {
	// stock is a string: units that may still be admitted; the gate is loaded while it exists.
	stock string
	// buyers is a hash: user id -> order ids held, comma-separated, oldest first.
	buyers string
	// meta is a hash: held, queued, version, sum, line, built, generation, history.
	meta string
	// loading is a string: the token of the running load.
	loading string
	// notes is a list: changes of the gate during a load.
	notes string
	// loans is a hash: epoch, to:<shard>, from:<shard>; see segments.go.
	loans string
	shard Shard
}

func segmentsOf(voucherID int64, n int) []gateKeys {
	all := make([]gateKeys, n)
	for i := range all {
		all[i] = keysIn(segmentShard(voucherID, i), voucherID)
	}
	return all
}

func keysIn(s Shard, voucherID int64) gateKeys {
	prefix := s.Gate(voucherID)
	return gateKeys{
		stock:   prefix + "stock",
		buyers:  prefix + "buyers",
		meta:    s.Meta(voucherID),
		loading: prefix + "loading",
		notes:   prefix + "notes",
		loans:   prefix + "loans",
		shard:   s,
	}
}

func (k gateKeys) table(token string) string { return k.buyers + ":" + token }

// list returns the keys of common.lua in its order, followed by a script's own keys.
func (k gateKeys) list(more ...string) []string {
	s := k.shard
	return append([]string{k.stock, k.buyers, k.meta, k.loading, k.notes, s.Stream(), s.Queued(), s.Dead()}, more...)
}

// Streams returns the keys of the streams of admissions, one per shard.
func Streams() []string {
	keys := make([]string, Shards)
	for s := range Shards {
		keys[s] = s.Stream()
	}
	return keys
}

func shardOfStream(stream string) (Shard, error) {
	for s := range Shards {
		if s.Stream() == stream {
			return s, nil
		}
	}
	return 0, fmt.Errorf("admission: %q is not a stream of admissions", stream)
}

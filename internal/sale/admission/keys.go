package admission

import (
	"fmt"
)

// Group is the consumer group of the streams. common.lua repeats it.
const Group = "workers"

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

package admission

import (
	"encoding/base64"
	"strconv"

	"seckill/internal/domain"
)

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

// Meta is the key of a hash with counters of a voucher's gate in the shard: held, queued, version, sum, line, built,
// run, lost.
// line is the last queue position that was assigned.
func (s Shard) Meta(voucherID int64) string { return s.Gate(voucherID) + "meta" }

package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/testenv"
)

// keyed returns an admission with a request key, for a user with a limit of 3. what is the content of the request.
func keyed(order, user int64, key, what string) domain.Admission {
	a := admission(order, user)
	var fingerprint [32]byte
	copy(fingerprint[:], what)
	a.Limit, a.Key = 3, domain.NewRequestKey(key, fingerprint)
	return a
}

// Until the order is in the database, the gate recognizes a request that it has admitted, in the same batch and in a
// later one. The order id itself is admitted again, as after a lost reply.
func TestReserveRecognizesRepeatedRequest(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 10)
		first, again, mismatch := keyed(1, 10, "k", "a"), &domain.RepeatedError{OrderID: 1}, domain.ErrIdempotencyMismatch
		require.Equal(t, []error{nil, again, nil, mismatch, nil}, reserve(t, g,
			first, keyed(2, 10, "k", "a"), keyed(3, 10, "l", "a"), keyed(4, 10, "k", "b"), keyed(5, 11, "k", "b")))
		require.Equal(t, []error{nil, again, nil}, reserve(t, g, first, keyed(6, 10, "k", "a"), admission(7, 12)))
		requireLevel(t, g, Level{Stock: 6, Held: 4, Queued: 4, Backlog: 2})

		stored := queue(t, g, voucher)[0].Admissions[0]
		require.Equal(t, first.Key.Hash, stored.Key.Hash)
		require.Equal(t, first.Key.Request, stored.Key.Request)
		require.Equal(t, "here", stored.ReplyTo)

		// The keys' records expire. While the orders are queued, their tickets have the keys.
		notes, err := rdb.Keys(t.Context(), "seckill:{s7}:key:*").Result()
		require.NoError(t, err)
		require.Len(t, notes, 3)
		require.Positive(t, rdb.TTL(t.Context(), notes[0]).Val())
		require.NoError(t, rdb.Del(t.Context(), notes...).Err())
		require.Equal(t, []error{again, mismatch, nil}, reserve(t, g,
			keyed(8, 10, "k", "a"), keyed(9, 10, "l", "b"), keyed(10, 10, "m", "a")))
	})
}

// A purchase without an order id gets no unit, although some are free. Its other answers are those of every purchase.
func TestReserveWithoutOrderAdmitsNobody(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) { withoutOrder(t, rdb) })
}

func withoutOrder(t testing.TB, rdb *redis.Client) {
	for _, segments := range []int{1, 4} {
		require.NoError(t, rdb.FlushDB(t.Context()).Err())
		g, _ := segmentsWithStock(t, rdb, segments, 10)
		require.Equal(t, []error{nil}, reserve(t, g, keyed(1, 10, "k", "a")))
		before := level(t, g, voucher)
		second := keyed(0, 10, "l", "a")
		second.Limit = 1
		require.Equal(t, []error{
			&domain.RepeatedError{OrderID: 1}, domain.ErrIdempotencyMismatch, &domain.DuplicateOrderError{OrderID: 1}, domain.ErrSoldOut,
		}, reserve(t, g, keyed(0, 10, "k", "a"), keyed(0, 10, "k", "b"), second, admission(0, 11)))
		require.Equal(t, before, level(t, g, voucher))

		require.NoError(t, rdb.HSet(t.Context(), segmentKeys(t, g, voucher)[home(11, segments)].meta, "history", "of another server").Err())
		require.Equal(t, []error{domain.ErrGateLacking}, reserve(t, g, admission(0, 11)))
	}
}

// One request that is sent through several gates at once is admitted once.
func TestConcurrentRepeatedRequestsAdmitOne(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, _ := withStock(t, rdb, 1000)
		const users, gates = 40, 4
		var admitted [users]atomic.Int64
		var wg sync.WaitGroup
		for gate := range int64(gates) {
			wg.Go(func() {
				for user := range int64(users) {
					errs, err := g.Reserve(context.Background(), voucher, domain.Window{End: noon.Add(100 * 365 * 24 * time.Hour)},
						[]domain.Admission{keyed(1+gate*1000+user, 1+user, "k", "a")})
					if err != nil {
						t.Error(err)
					} else if errs[0] == nil {
						admitted[user].Add(1)
					}
				}
			})
		}
		wg.Wait()
		for user := range admitted {
			require.EqualValues(t, 1, admitted[user].Load())
		}
	})
}

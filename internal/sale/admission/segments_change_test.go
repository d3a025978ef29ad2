package admission

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/testenv"
)

// The number of segments changes while admissions of an earlier window are queued, so that they are settled in other
// segments than the homes of their users. The gate can then be off by these orders, and a rebuild, which the reconciler
// requests within seconds, makes it exact.
func TestSegmentsChangeBesideQueuedAdmissions(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, rdb *redis.Client) {
		for _, n := range [][2]int{{4, 1}, {1, 4}, {4, 2}, {16, 1}, {2, 16}} {
			require.NoError(t, rdb.FlushAll(t.Context()).Err())
			before, db := segmentsWithStock(t, rdb, n[0], 20)
			for i := range int64(12) {
				reserveApart(t, before, admission(1+i, 10+i))
			}
			entries := queue(t, before, voucher)
			require.Len(t, entries, 12)

			after := segmented(rdb, map[int64]int{voucher: n[1]})
			require.NoError(t, after.Unload(t.Context(), voucher))
			require.NoError(t, after.Load(t.Context(), voucher, db))
			for i, p := range entries {
				a := p.Admissions[0]
				if i%2 == 0 {
					settle(t, after, p, failed)
					continue
				}
				require.Empty(t, db.commit(a))
				settle(t, after, p)
				if i%4 == 1 {
					require.True(t, db.cancel(a.OrderID))
					require.NoError(t, after.Release(t.Context(), voucher, domain.Holder{OrderID: a.OrderID, UserID: a.UserID}))
				}
			}

			require.NoError(t, after.Rebuild(t.Context(), voucher, level(t, after, voucher).Built, db))
			requireExact(t, after, db)
		}
	})
}

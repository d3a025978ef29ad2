package alerts

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/ops/reconcile"
	"seckill/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

// world is what the reporters of several servers see. Their receiver refuses as many posts as refuse says.
type world struct {
	alerts  Alerts
	watched []int64
	now     time.Time
	refuse  int
	posts   []message
}

var errRefused = errors.New("answered with status 500")

func (w *world) post(_ context.Context, body []byte) error {
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return err
	}
	w.posts = append(w.posts, m)
	if w.refuse--; w.refuse >= 0 {
		return errRefused
	}
	return nil
}

func (w *world) types() []string {
	var all []string
	for _, m := range w.posts {
		all = append(all, m.Type+" "+m.Data.key())
	}
	w.posts = nil
	return all
}

func newWorld() *world {
	w := &world{now: time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)}
	w.alerts.checked = map[int64]bool{2: true}
	w.alerts.DeadLetters = new(int64)
	return w
}

func (w *world) reporter(rdb env.RedisClient, instance string) *Reporter {
	return &Reporter{
		Read:  func(context.Context) (Alerts, error) { return w.alerts, nil },
		Watch: func(ids []int64) { w.watched = ids }, Post: w.post, Redis: rdb, Instance: instance, Now: func() time.Time { return w.now },
	}
}

// TestAlertIsPostedOnce: its beginning and its end are posted by one of two servers, with what the alert was, and again after
// growing pauses while the receiver refuses them, under the same id.
func TestAlertIsPostedOnce(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		w := newWorld()
		a, b := w.reporter(rdb, "a"), w.reporter(rdb, "b")
		both := func() error { return errors.Join(a.report(t.Context()), b.report(t.Context())) }
		require.NoError(t, both())
		require.Empty(t, w.types())

		w.refuse = 3
		w.alerts.Violations = []reconcile.Violation{{VoucherID: 2, Invariant: reconcile.KindI3, Detail: "3 units too many"}}
		*w.alerts.DeadLetters = 4
		var tries []time.Duration
		for begin := w.now; w.now.Sub(begin) < time.Minute; w.now = w.now.Add(time.Second) {
			before := len(w.posts)
			if err := both(); err != nil {
				require.ErrorIs(t, err, errRefused)
			}
			for range len(w.posts) - before {
				tries = append(tries, w.now.Sub(begin))
			}
		}
		require.Equal(t, []time.Duration{0, 5 * time.Second, 15 * time.Second, 35 * time.Second, 35 * time.Second}, tries)
		for _, m := range w.posts[:4] {
			require.Equal(t, w.posts[0], m)
		}
		require.Equal(t, Alert{Kind: KindDeadLetters, Count: 4, Text: "Dead letters, orders that could not be stored: 4."}, w.posts[3].Data)
		require.Equal(t, "Sale 2 violates the invariant I3: 3 units too many.", w.posts[4].Data.Text)
		require.NotEqual(t, w.posts[3].ID, w.posts[4].ID)
		w.posts = nil

		*w.alerts.DeadLetters = 5 // the same alert
		w.alerts.Violations = nil
		require.NoError(t, both())
		require.NoError(t, both())
		require.Equal(t, "Sale 2 violates the invariant I3: 3 units too many.", w.posts[0].Data.Text)
		require.Equal(t, []string{"alert.resolved violation 2 I3"}, w.types())
	})
}

// A server that has not checked a sale, or whose Redis does not answer, resolves nothing. It has the sale checked.
func TestUnknownIsNotResolved(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		w := newWorld()
		w.alerts.Violations = []reconcile.Violation{{VoucherID: 2, Invariant: reconcile.KindI1}}
		*w.alerts.DeadLetters = 1
		w.alerts.UnreadNotices = 1
		require.NoError(t, w.reporter(rdb, "a").report(t.Context()))
		require.Len(t, w.types(), 3)

		require.NoError(t, rdb.Del(t.Context(), reporterKey).Err()) // the lease of a ends
		w.alerts = Alerts{}
		b := w.reporter(rdb, "b")
		require.NoError(t, b.report(t.Context()))
		require.Equal(t, []string{"alert.resolved unread_notices"}, w.types())
		require.Equal(t, []int64{2}, w.watched)

		w.alerts.checked = map[int64]bool{2: true}
		require.NoError(t, b.report(t.Context()))
		require.Equal(t, []string{"alert.resolved violation 2 I1"}, w.types())
	})
}

// TestShortAlertIsForgotten: what ends before its beginning was accepted has no end.
func TestShortAlertIsForgotten(t *testing.T) {
	env.EachRedis(t, func(t *testing.T, rdb env.RedisClient) {
		w := newWorld()
		r := w.reporter(rdb, "a")
		w.refuse = 1
		w.alerts.FailingEvents = 1
		require.ErrorIs(t, r.report(t.Context()), errRefused)
		require.ErrorIs(t, r.report(t.Context()), errRefused, "until the next try")
		first := w.posts[0].ID
		require.Equal(t, []string{"alert.raised failing_events"}, w.types())

		w.now = w.now.Add(firstRetry)
		w.alerts.FailingEvents = 0
		require.NoError(t, r.report(t.Context()))
		require.Empty(t, w.types())
		w.alerts.FailingEvents = 1
		require.NoError(t, r.report(t.Context()))
		require.NotEqual(t, first, w.posts[0].ID)
	})
}

package handler_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/admission"
	"seckill/internal/domain"
)

type deadLetterView struct {
	ID, Reason string
	OrderID    string `json:"order_id"`
	UserID     string `json:"user_id"`
	VoucherID  string `json:"voucher_id"`
	Tries      int
	Fields     map[string]string
}

const deadLettersPath = "/api/v1/admin/dead-letters"

// TestDeadLetterRoutesRequireAdmin also checks the answers for unknown dead letters.
func TestDeadLetterRoutesRequireAdmin(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	for _, request := range []func(client) answer{
		func(c client) answer { return c.get(deadLettersPath) },
		func(c client) answer { return c.post(deadLettersPath+"/1-1-0/replay", nil) },
		func(c client) answer { return c.post(deadLettersPath+"/1-1-0/discard", nil) },
	} {
		request(e.guest().bad()).problem(http.StatusUnauthorized, "unauthenticated")
		request(e.buyer(1)).problem(http.StatusForbidden, "forbidden")
	}
	assert.Empty(t, decode[listView[deadLetterView]](e.admin().get(deadLettersPath).want(http.StatusOK)).Items)
	for _, id := range []string{"1-1-0", "99-1-0", "nonsense"} {
		e.admin().post(deadLettersPath+"/"+id+"/replay", nil).problem(http.StatusNotFound, "not_found")
		e.admin().post(deadLettersPath+"/"+id+"/discard", nil).problem(http.StatusNotFound, "not_found")
	}
	e.admin().get(deadLettersPath+"?cursor=nonsense").problem(http.StatusBadRequest, "invalid_request")
}

// TestDeadLetterPages reads dead letters of several shards page by page.
func TestDeadLetterPages(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	want := map[string]bool{}
	for i := range 5 {
		want[e.buyer(i).queue(e.sale(1))] = true
		e.deadLetter(fmt.Sprintf("poison %d", i))
	}
	for _, limit := range []int{1, 2, 5, 50} {
		_, all := walk[deadLetterView](e.admin(), deadLettersPath, limit)
		require.Len(t, all, 5)
		for i, l := range all {
			assert.True(t, want[l.OrderID], l.OrderID)
			assert.Equal(t, l.OrderID, l.Fields["order"])
			assert.Equal(t, 5, l.Tries)
			assert.Equal(t, "poison "+strconv.Itoa(4-i), l.Reason, "newest first")
		}
	}
}

// TestReplayDeadLetter queues an order again, unless the sale is sold out or the buyer has another order.
func TestReplayDeadLetter(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db option) {
		e := newQueueEnv(t, db)
		v, buyer, other := e.sale(1), e.buyer(1), e.buyer(2)
		id := buyer.queue(v)
		e.deadLetter("poison")
		letter := decode[listView[deadLetterView]](e.admin().get(deadLettersPath).want(http.StatusOK)).Items[0]
		replay := func() answer { return e.admin().post(deadLettersPath+"/"+letter.ID+"/replay", nil) }

		taken := other.queue(v)
		replay().problem(http.StatusConflict, "sold_out")
		e.work()
		other.post(orderPath(taken)+"/cancel", nil).want(http.StatusOK)
		again := buyer.queue(v)
		assert.Equal(t, again, replay().problem(http.StatusConflict, "duplicate_order").OrderID)
		e.work()
		buyer.post(orderPath(again)+"/cancel", nil).want(http.StatusOK)
		require.NoError(t, e.gate.Unload(t.Context(), v.number(t))) // the replay loads the gate

		admin := e.admin()
		type entry struct {
			Actor, Action, Detail string
			ActorID               string `json:"actor_id"`
			VoucherID             string `json:"voucher_id"`
		}
		log := func() []entry {
			return decode[listView[entry]](admin.get("/api/v1/admin/audit?order_id=" + id).want(http.StatusOK)).Items
		}
		assert.Empty(t, log(), "nothing was done")
		assert.Equal(t, queuedView{OrderID: id, Status: "queued"}, decode[queuedView](replay().want(http.StatusAccepted)))
		assert.Equal(t, []entry{{"admin", "replay_dead_letter", letter.ID, admin.login.User.ID, v.ID}}, log())
		replay().problem(http.StatusNotFound, "not_found")
		e.work()
		assert.Equal(t, "pending_payment", decode[orderView](buyer.get(orderPath(id)).want(http.StatusOK)).Status)
		e.checkInvariants()
	})
}

// number returns the id as a number.
func (v voucherView) number(t testing.TB) int64 {
	t.Helper()
	id, err := strconv.ParseInt(v.ID, 10, 64)
	require.NoError(t, err)
	return id
}

func TestUnparsableDeadLetterCanOnlyBeDiscarded(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	stream := admission.Streams()[3]
	entryID, err := e.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: []string{"what", "ever"}}).Result()
	require.NoError(t, err)
	require.NoError(t, e.gate.MoveToDeadLetters(t.Context(), stream, entryID, "no order", 1))
	letter := decode[listView[deadLetterView]](e.admin().get(deadLettersPath).want(http.StatusOK)).Items[0]
	assert.Equal(t, deadLetterView{ID: letter.ID, Reason: "no order", Tries: 1, Fields: map[string]string{"what": "ever"}}, letter)
	path := deadLettersPath + "/" + letter.ID
	e.admin().post(path+"/replay", nil).problem(http.StatusConflict, "invalid_state")
	e.admin().post(path+"/discard", nil).want(http.StatusNoContent)
	e.admin().post(path+"/discard", nil).problem(http.StatusNotFound, "not_found")
	log := string(e.admin().get("/api/v1/admin/audit").want(http.StatusOK).body)
	assert.Equal(t, 1, strings.Count(log, "discard_dead_letter"))
	assert.NotContains(t, log, "replay_dead_letter")
}

// TestAlerts: the routes report violated invariants, dead letters and events that do not arrive.
func TestAlerts(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db option) {
		e := newQueueEnv(t, db)
		v := e.sale(5)
		viewer := e.staff("13900000007", domain.RoleViewer)
		type alerts struct {
			Violations []struct {
				VoucherID string `json:"voucher_id"`
				Invariant string
			}
			CheckedAt     *time.Time `json:"checked_at"`
			DeadLetters   *int64     `json:"dead_letters"`
			FailingEvents int        `json:"failing_events"`
		}
		get := func() (a alerts) {
			for try := 0; try < 20 && a.DeadLetters == nil; try++ { // it is absent if Redis does not answer in half a second
				a = decode[alerts](viewer.get("/api/v1/admin/alerts").want(http.StatusOK))
			}
			return a
		}
		a := get()
		require.Empty(t, a.Violations)
		require.Nil(t, a.CheckedAt)
		require.Zero(t, *a.DeadLetters)
		require.Zero(t, a.FailingEvents)

		e.buyer(1).queue(v)
		e.deadLetter("poison")
		e.exec("UPDATE seckill_vouchers SET stock = stock + 3 WHERE voucher_id = " + v.ID)
		for i, columns := range []string{ // status, tries, answered_at, repeated_at
			"3, 9, '2026-11-10', NULL",         // given up
			"1, 2, '2026-11-10', NULL",         // failing
			"1, 1, NULL, NULL",                 // the first delivery is running
			"1, 1, '2026-11-09', '2026-11-10'", // sent again, the delivery is running
			"2, 1, '2026-11-10', NULL",         // delivered
		} {
			e.exec(fmt.Sprintf("INSERT INTO order_events (order_id, type, created_at, status, tries, answered_at, repeated_at) VALUES (%d, 'order.paid', '2026-11-09', %s)", i+1, columns))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { e.config.Reconciler.Run(ctx) })
		defer func() { cancel(); running.Wait() }()
		require.Eventually(t, func() bool { a = get(); return a.CheckedAt != nil && len(a.Violations) > 0 }, time.Minute, 20*time.Millisecond)
		require.Equal(t, v.ID, a.Violations[0].VoucherID)
		require.Equal(t, "I3", a.Violations[0].Invariant)
		require.EqualValues(t, 1, *a.DeadLetters)
		require.Equal(t, 2, a.FailingEvents)
		log := string(e.admin().get("/api/v1/admin/audit?kind=request").want(http.StatusOK).body)
		require.Contains(t, log, "/auth/login")
		require.NotContains(t, log, "/admin/alerts", "polls fill no log")
		e.staff("13900000004", domain.RoleRedeemer).get("/api/v1/admin/alerts").problem(http.StatusForbidden, "forbidden")
	})
}

package handler_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"seckill/internal/admission"
)

type letterView struct {
	ID, Reason string
	OrderID    string `json:"order_id"`
	UserID     string `json:"user_id"`
	VoucherID  string `json:"voucher_id"`
	Tries      int
	Fields     map[string]string
}

const lettersPath = "/api/v1/admin/dead-letters"

// TestDeadLetterRoutesAreForAdmins, who hear of letters that are not there.
func TestDeadLetterRoutesAreForAdmins(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	for _, ask := range []func(client) answer{
		func(c client) answer { return c.get(lettersPath) },
		func(c client) answer { return c.post(lettersPath+"/1-1-0/replay", nil) },
		func(c client) answer { return c.post(lettersPath+"/1-1-0/discard", nil) },
	} {
		ask(e.guest().bad()).problem(http.StatusUnauthorized, "unauthenticated")
		ask(e.buyer(1)).problem(http.StatusForbidden, "forbidden")
	}
	assert.Empty(t, decode[listView[letterView]](e.admin().get(lettersPath).want(http.StatusOK)).Items)
	for _, id := range []string{"1-1-0", "99-1-0", "nonsense"} {
		e.admin().post(lettersPath+"/"+id+"/replay", nil).problem(http.StatusNotFound, "not_found")
		e.admin().post(lettersPath+"/"+id+"/discard", nil).problem(http.StatusNotFound, "not_found")
	}
	e.admin().get(lettersPath+"?cursor=nonsense").problem(http.StatusBadRequest, "invalid_request")
}

// TestDeadLetterPages walks through the letters of several shards.
func TestDeadLetterPages(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	want := map[string]bool{}
	for i := range 5 {
		want[e.buyer(i).queue(e.sale(1))] = true
		e.bury(fmt.Sprintf("poison %d", i))
	}
	for _, limit := range []int{1, 2, 5, 50} {
		_, all := walk[letterView](e.admin(), lettersPath, limit)
		require.Len(t, all, 5)
		for i, l := range all {
			assert.True(t, want[l.OrderID], l.OrderID)
			assert.Equal(t, l.OrderID, l.Fields["order"])
			assert.Equal(t, 5, l.Tries)
			assert.Equal(t, "poison "+strconv.Itoa(4-i), l.Reason, "the newest first")
		}
	}
}

// TestReplayDeadLetter queues an order again, unless its unit or its buyer is taken.
func TestReplayDeadLetter(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	v, buyer, other := e.sale(1), e.buyer(1), e.buyer(2)
	id := buyer.queue(v)
	e.bury("poison")
	letter := decode[listView[letterView]](e.admin().get(lettersPath).want(http.StatusOK)).Items[0]
	replay := func() answer { return e.admin().post(lettersPath+"/"+letter.ID+"/replay", nil) }

	taken := other.queue(v)
	replay().problem(http.StatusConflict, "sold_out")
	e.work()
	other.post(orderPath(taken)+"/cancel", nil).want(http.StatusOK)
	again := buyer.queue(v)
	assert.Equal(t, again, replay().problem(http.StatusConflict, "duplicate_order").OrderID)
	e.work()
	buyer.post(orderPath(again)+"/cancel", nil).want(http.StatusOK)
	require.NoError(t, e.gate.Unload(t.Context(), v.number(t))) // the replay loads it

	assert.Equal(t, queuedView{OrderID: id, Status: "queued"}, decode[queuedView](replay().want(http.StatusAccepted)))
	replay().problem(http.StatusNotFound, "not_found")
	e.work()
	assert.Equal(t, "pending_payment", decode[orderView](buyer.get(orderPath(id)).want(http.StatusOK)).Status)
	e.checkBooks()
}

// number is the id as the services have it.
func (v voucherView) number(t testing.TB) int64 {
	t.Helper()
	id, err := strconv.ParseInt(v.ID, 10, 64)
	require.NoError(t, err)
	return id
}

// TestUnreadableDeadLetter is shown as it is, and can only be discarded.
func TestUnreadableDeadLetter(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	stream := admission.Streams()[3]
	entryID, err := e.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: []string{"what", "ever"}}).Result()
	require.NoError(t, err)
	require.NoError(t, e.gate.Bury(t.Context(), stream, entryID, "no order", 1))
	letter := decode[listView[letterView]](e.admin().get(lettersPath).want(http.StatusOK)).Items[0]
	assert.Equal(t, letterView{ID: letter.ID, Reason: "no order", Tries: 1, Fields: map[string]string{"what": "ever"}}, letter)
	path := lettersPath + "/" + letter.ID
	e.admin().post(path+"/replay", nil).problem(http.StatusConflict, "invalid_state")
	e.admin().post(path+"/discard", nil).want(http.StatusNoContent)
	e.admin().post(path+"/discard", nil).problem(http.StatusNotFound, "not_found")
}

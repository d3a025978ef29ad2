package sim_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"seckill/internal/lock"
	"seckill/internal/service"
	"seckill/internal/sim"
)

// deed is something that somebody does at a server, and what must come of it.
type deed struct {
	name string
	at   *shop
	do   func() string // the answer, as a word
	// effect changes the books as the deed must have, and returns the word that must be its answer. now is the database
	// after it, in which it finds what the product makes up, such as references.
	effect func(b books, now *picture) string
	// whole says that effect knows what fate does to the deed, since it has several transactions. Else there is one.
	whole bool
}

// words are errors as the model calls them. Of several that are joined the first counts.
var words = []struct {
	err  error
	word string
}{
	{service.ErrUnavailable, "unavailable"}, {errBank, "the bank is silent"}, {service.ErrNotFound, "not_found"},
	{service.ErrInvalidState, "invalid_state"}, {service.ErrUnauthenticated, "unauthenticated"}, {service.ErrSoldOut, "sold_out"},
	{service.ErrSaleEnded, "ended"}, {service.ErrSaleNotStarted, "not_started"}, {service.ErrOrderInProgress, "in_progress"},
}

func word(err error) string {
	var invalid *service.InvalidError
	var duplicate *service.DuplicateOrderError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &invalid):
		return "invalid"
	case errors.As(err, &duplicate):
		return "duplicate " + number(duplicate.OrderID)
	}
	for _, known := range words {
		if errors.Is(err, known.err) {
			return known.word
		}
	}
	return err.Error()
}

// drawFate: every fifth deed meets one, in one of its first transactions.
func (l *life) drawFate(t *rapid.T, transactions int64) {
	if !once(t, "harm", 5) {
		return
	}
	l.fate.how = sim.Evenly(t, "fate", notDone, noReply, noReply, diesBefore, diesAfter)
	for l.fate.at = 1; l.fate.at < transactions && rapid.Bool().Draw(t, "later"); l.fate.at++ {
	}
}

// drawGateFate: every sixth deed that changes the gate is not heard there, or hears no reply.
func (l *life) drawGateFate(t *rapid.T) {
	if l.lane == "queue" && l.fate.at == 0 && once(t, "gate", 6) {
		l.gateFate = sim.Evenly(t, "gate's fate", deaf, mute)
	}
}

func (l *life) drawNews(t *rapid.T) { l.noNews = once(t, "no news", 6) }

// perform does deeds, all at once, and finds out how they can have changed the books. It says whether fate has struck.
func (l *life) perform(deeds ...deed) (struck bool) {
	answers := atOnce(deeds)
	for i, d := range deeds {
		l.did("  %s at %s: %s", d.name, d.at.name, answers[i])
	}
	l.didHarm()
	l.now = l.look()
	before := l.books
	if len(deeds) > 1 {
		l.books = l.explain(deeds, answers)
	} else {
		l.books = l.follows(deeds[0], answers[0])
	}
	struck = l.hit.Load()
	l.aftermath(deeds[0].at, before)
	return struck
}

// didHarm notes what went wrong.
func (l *life) didHarm() {
	if l.hit.Load() || l.gateFate != "" || l.noNews {
		l.did("  harm: %s in transaction %d; the gate: %q; no news: %t", l.fate.how, l.fate.at, l.gateFate, l.noNews)
	}
}

func atOnce(deeds []deed) []string {
	answers := make([]string, len(deeds))
	var all sync.WaitGroup
	for i, d := range deeds {
		all.Go(func() { answers[i] = d.do() })
	}
	all.Wait()
	return answers
}

// follows returns the books after a deed that was done alone.
func (l *life) follows(d deed, answer string) books {
	next := l.books.clone()
	l.diary.seen[d.name]++
	want := "unavailable"
	switch struck := l.hit.Load(); {
	case d.whole || !struck:
		want = d.effect(next, l.now)
	case l.fate.done():
		l.diary.seen[l.fate.how]++
		_ = d.effect(next, l.now)
	default:
		l.diary.seen[l.fate.how]++
	}
	if !l.dead.Load() { // else nobody hears
		require.Equal(l, want, answer, "the answer to %s", d.name)
	}
	return next
}

// explain finds an order of deeds in which their answers are true and the database is what it is.
func (l *life) explain(deeds []deed, answers []string) books {
	names := make([]string, len(deeds))
	for i, d := range deeds {
		names[i] = d.name
	}
	l.diary.seen["race"]++
	for _, sequence := range permutations(len(deeds)) {
		if next, ok := l.inSequence(deeds, answers, sequence); ok && next.equal(l.now.books) {
			return next
		}
	}
	require.Fail(l, "no order of them explains it", "%q were answered %q: before\n%+v, now\n%+v", names, answers, l.books, l.now.books)
	return books{}
}

// inSequence does deeds one after the other, and says whether they are answered in this way.
func (l *life) inSequence(deeds []deed, answers []string, sequence []int) (books, bool) {
	next := l.books.clone()
	for _, i := range sequence {
		if deeds[i].effect(next, l.now) != answers[i] {
			return next, false
		}
	}
	return next, true
}

func (b books) equal(other books) bool {
	return maps.Equal(b.vouchers, other.vouchers) && maps.Equal(b.orders, other.orders) &&
		maps.Equal(b.payments, other.payments) && maps.Equal(b.audit, other.audit)
}

// permutations are all orders of n things.
func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{{}}
	}
	var all [][]int
	for _, p := range permutations(n - 1) {
		for at := range n {
			all = append(all, slices.Insert(slices.Clone(p), at, n-1))
		}
	}
	return all
}

// aftermath notes who was not told what, and lets a server that died start again.
func (l *life) aftermath(at *shop, before books) {
	untold := l.hit.Load() || l.gateFate != ""
	for id, v := range l.books.vouchers {
		if untold && v != before.vouchers[id] {
			l.gateOff[id] = true
		}
		if l.hit.Load() {
			for _, s := range l.shops {
				s.doubts(id)
			}
		}
	}
	if l.dead.Load() {
		l.start(slices.Index(l.shops[:], at))
	}
	l.calm()
}

// buy is one click, or several at once, perhaps of one user.
func (l *life) buy(t *rapid.T, clicks int) {
	l.drawFate(t, 1)
	l.drawGateFate(t)
	at := l.anyShop(t)
	bs := make([]*click, clicks)
	deeds := make([]deed, clicks)
	for i := range bs {
		b := &click{user: anyUser(t), voucher: l.anyVoucher(t)}
		bs[i] = b
		deeds[i] = deed{name: "buy", at: at, do: func() string {
			o, err := at.orders.Place(l.ctx, b.user, b.voucher, 0)
			b.order = o.ID
			return word(err)
		}}
	}
	before, g := l.books, l.gates()
	for i, answer := range atOnce(deeds) {
		bs[i].answer = answer
		l.diary.seen["buy: "+shortened(answer)]++
		l.did("  user %d buys of %d at %s: %s, order %d", bs[i].user, bs[i].voucher, at.name, answer, bs[i].order)
	}
	l.didHarm()
	l.now = l.look()
	l.bought(at, bs, g)
	if l.dead.Load() && l.lane == "lock" { // the lock of the first of them stays until its lease ends
		l.locks[bs[0].user] = true
		require.NoError(l, l.rdb.Set(l.ctx, lock.RedLockKey(userLock(bs[0].user)), "dead", time.Minute).Err())
	}
	l.aftermath(at, before)
}

// click is what somebody wants to buy, and what he heard.
type click struct {
	user, voucher, order int64
	answer               string
}

// shortened is an answer without ids.
func shortened(answer string) string {
	if len(answer) > 9 && answer[:9] == "duplicate" {
		return "duplicate"
	}
	return answer
}

// bought finds out what the clicks did. Those who got something come first: that nothing is left, or that a user has
// enough, is true for the others at the end if it was ever true.
func (l *life) bought(at *shop, bs []*click, g map[int64]int64) {
	next := l.books.clone()
	if l.lane == "queue" {
		l.admitted(at, bs, g)
	} else {
		l.stored(next, at, bs)
	}
	for _, b := range bs {
		v, sure := next.vouchers[b.voucher], at.sure(b.voucher)
		closed := closedWord(v)
		switch b.answer {
		case "ok":
			require.True(l, closed == "" || !sure, "user %d bought voucher %d, which is %s", b.user, b.voucher, closed)
		case "sold_out":
			require.True(l, v.stock == 0 || !sure || l.lane == "queue" && g[b.voucher] <= 0,
				"user %d heard sold out of voucher %d: %d units, %d in the gate", b.user, b.voucher, v.stock, g[b.voucher])
			require.True(l, closed == "" || !sure, "user %d heard sold out of voucher %d, which is %s", b.user, b.voucher, closed)
			if l.lane == "queue" {
				at.doubts(b.voucher) // it takes the gate's word for a while
			}
		case "ended", "not_started":
			require.True(l, closed == b.answer || !sure, "user %d heard %s of voucher %d, which is %q", b.user, b.answer, b.voucher, closed)
		case "in_progress":
			twice := func(other *click) bool { return other != b && other.user == b.user }
			require.True(l, l.lane == "lock" && (l.locks[b.user] || slices.ContainsFunc(bs, twice)), "nothing of user %d is in progress", b.user)
		case "unavailable":
			require.True(l, l.hit.Load() || l.gateFate != "", "nothing is away")
		default:
			l.duplicate(next, b, sure)
		}
	}
	l.books = next
}

// closedWord is what a buyer hears of a sale that is not open.
func closedWord(v voucher) string {
	switch {
	case !v.on || v.window == "ended":
		return "ended"
	case v.window == "upcoming":
		return "not_started"
	}
	return ""
}

// duplicate: the user holds what he is told of, and as many as he may.
func (l *life) duplicate(next books, b *click, sure bool) {
	mine := l.ordersOf(next, b.user, b.voucher)
	limit := next.vouchers[b.voucher].limit
	if !sure {
		limit = 1
	}
	switch {
	case !l.gateOff[b.voucher]:
		require.GreaterOrEqual(l, len(mine), limit, "user %d heard %s of voucher %d", b.user, b.answer, b.voucher)
	default: // the gate may not know yet which of his orders have ended
		for id, o := range next.orders {
			if o.user == b.user && o.voucher == b.voucher {
				mine = append(mine, id)
			}
		}
	}
	named := func(id int64) bool { return b.answer == "duplicate "+number(id) }
	require.True(l, slices.ContainsFunc(mine, named), "user %d heard %q of voucher %d and has %v", b.user, b.answer, b.voucher, mine)
}

// ordersOf are what the user holds of a voucher: active orders, and admissions.
func (l *life) ordersOf(b books, user, voucher int64) []int64 {
	var ids []int64
	for id, o := range b.orders {
		if o.user == user && o.voucher == voucher && o.status.Active() {
			ids = append(ids, id)
		}
	}
	for id, p := range l.promises {
		if _, stored := b.orders[id]; !stored && p.standing == waiting && p.UserID == user && p.VoucherID == voucher {
			ids = append(ids, id)
		}
	}
	return ids
}

// stored takes over the new orders of the lanes lock and batch.
func (l *life) stored(next books, at *shop, bs []*click) {
	for _, b := range bs {
		if b.answer == "ok" {
			require.Contains(l, l.now.orders, b.order, "what was answered is stored")
			require.NotContains(l, next.orders, b.order, "nobody had this id before")
			require.Equal(l, b.user, l.now.orders[b.order].user)
		}
	}
	for id, o := range l.now.orders {
		if _, known := next.orders[id]; known {
			continue
		}
		clicked := func(b *click) bool {
			heard := b.answer == "ok" && b.order == id || l.hit.Load() && l.fate.done()
			return heard && b.user == o.user && b.voucher == o.voucher
		}
		require.True(l, slices.ContainsFunc(bs, clicked), "nobody was told of order %d: %+v", id, o)
		l.place(next, at.sure(o.voucher), id, o)
	}
}

// place takes over an order that has just been stored, if it could be.
func (l *life) place(next books, sure bool, id int64, o order) {
	v := next.vouchers[o.voucher]
	require.Positive(l, v.stock, "a unit for order %d", id)
	require.Less(l, next.held(o.user, o.voucher), v.limit, "orders of user %d before order %d", o.user, id)
	require.True(l, o.amount == v.price || !sure, "order %d: its amount is %d, the price %d", id, o.amount, v.price)
	next.place(id, order{user: o.user, voucher: o.voucher, amount: o.amount, status: service.OrderPendingPayment, slot: true})
}

func (l *life) anyShop(t *rapid.T) *shop { return sim.Evenly(t, "server", l.shops[0], l.shops[1]) }

// users are few, so that they meet themselves.
func anyUser(t *rapid.T) int64 { return sim.Evenly[int64](t, "user", 1, 2, 3, 4) }

// wait lets time pass in the bubble.
func wait(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

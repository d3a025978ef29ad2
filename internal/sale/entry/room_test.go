package entry

import (
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"seckill/internal/domain"
	"seckill/test/env"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

// roomSale is a sale that begins at start and admits ten buyers a second.
func roomSale() *domain.Sale {
	return &domain.Sale{
		Stock: 1000, BeginAt: start, EndAt: start.Add(time.Hour),
		Entry: domain.Entry{Mode: domain.EntryRoom, Rate: 10, PassTTL: 30 * time.Second},
	}
}

// testRoom is a line with a clock, as one server sees it.
type testRoom struct {
	*line

	t    *testing.T
	sale *domain.Sale
	now  time.Time
	room domain.Room
}

// newTestRoom returns a room whose lobby has so many buyers, all present, at the start.
func newTestRoom(t *testing.T, lobby uint32) *testRoom {
	r := &testRoom{line: newLine(), t: t, sale: roomSale(), now: start.Add(-time.Second)}
	r.room = domain.Room{VoucherID: 1, Joined: lobby, Stock: r.sale.Stock}
	r.read()
	for n := range lobby {
		require.Equal(t, Lobby, r.ask(n).State)
	}
	r.now = start
	r.room.StartedAt, r.room.Size, r.room.Seed = start, lobby, [32]byte{7}
	r.read()
	return r
}

// read applies events, with the sequence numbers that follow.
func (r *testRoom) read(events ...domain.RoomEvent) {
	room := r.room
	for i, e := range events {
		e.Seq = r.applied + 1 + uint32(i)
		room.Events = append(room.Events, e)
	}
	r.apply(room, r.now)
}

type asked struct {
	Admission

	ahead int
	poll  time.Duration
	err   error
}

func (r *testRoom) ask(n uint32) asked {
	a, _, err := r.poll(n, r.sale, r.now)
	return asked{a, a.Position - 1, time.Duration(a.Poll) * time.Millisecond, err}
}

// admit lets time pass and returns the numbers that this server then admits.
func (r *testRoom) admit(after time.Duration, others ...report) []uint32 {
	r.now = r.now.Add(after)
	r.read()
	r.keep(append(others, r.report(100, r.now)))
	e := r.admitNext(r.sale, r.room.Stock, r.now)
	if len(e.Numbers) > 0 {
		r.read(e)
	}
	return e.Numbers
}

func TestLobbyComesBeforeLaterArrivals(t *testing.T) {
	r := newTestRoom(t, 20)
	r.room.Joined = 22
	require.Equal(t, 20, r.ask(20).ahead)
	require.Equal(t, 21, r.ask(21).ahead)
	order := LobbyOrder(r.room.Seed, 20)
	require.NotEqual(t, uint32(0), order[0], "choose another seed")
	for position, n := range order {
		require.Equal(t, position, r.ask(n).ahead)
	}
	require.Equal(t, order[:10], r.admit(time.Second))
	require.Equal(t, order[10:15], r.admit(time.Second/2))
	require.Equal(t, 0, r.ask(order[15]).ahead)
	require.Equal(t, append(order[15:20:20], 20, 21), r.admit(time.Second))
	require.Equal(t, start.Add(31*time.Second), r.ask(order[0]).ExpiresAt)
}

// Admissions keep to the rate, whatever the intervals between them, and catch up at most two seconds.
func TestAdmissionRate(t *testing.T) {
	r := newTestRoom(t, 100)
	r.sale.Entry.Rate = 3
	admitted := 0
	for range 20 {
		admitted += len(r.admit(530 * time.Millisecond))
	}
	require.Equal(t, 31, admitted, "10.6 s")
	for n := range uint32(100) {
		r.ask(n)
	}
	require.Len(t, r.admit(10*time.Second), 6)
}

// Who stopped asking is passed over, keeps the place, and is the next after coming back.
func TestAbsentBuyersArePassedOver(t *testing.T) {
	r := newTestRoom(t, 50)
	order := LobbyOrder(r.room.Seed, 50)
	r.now = start.Add(time.Minute) // everybody is absent now
	require.Empty(t, r.admit(time.Second))
	r.ask(order[20])
	r.ask(order[30])
	require.Equal(t, []uint32{order[20], order[30]}, r.admit(time.Second))
	require.Equal(t, 0, r.ask(order[0]).ahead)
	require.Equal(t, []uint32{order[0]}, r.admit(time.Second))
	require.True(t, r.ask(order[0]).ExpiresAt.After(r.now))
}

// A server that has not read the last events reports buyers whose turn has come, or that have left.
func TestLateReportRepeatsNoTurn(t *testing.T) {
	r := newTestRoom(t, 50)
	first := r.admit(time.Second)
	require.Len(t, first, 10)
	left := LobbyOrder(r.room.Seed, 50)[10]
	r.read(domain.RoomEvent{VoucherID: 1, Kind: domain.RoomLeft, Numbers: []uint32{left}})
	late := report{At: r.now.UnixMilli(), Started: true, Present: 11, Next: append(slices.Clone(first), left)}
	require.Equal(t, LobbyOrder(r.room.Seed, 50)[11:21], r.admit(time.Second, late))
}

// An admitted buyer can verify the draw as well: the first ones never wait after the start.
func TestAdmittedBuyerSeesTheDraw(t *testing.T) {
	r := newTestRoom(t, 50)

	turn := r.ask(r.admit(time.Second)[0])
	require.Equal(t, Admitted, turn.State)
	require.Equal(t, r.room.Size, turn.Lobby.Size)
	require.Equal(t, hex.EncodeToString(r.room.Seed[:]), turn.Lobby.Seed)
}

// A pass that has not bought stands for a unit until lateOrder after its end, or its buyer leaves.
func TestNoMorePassesThanUnits(t *testing.T) {
	r := newTestRoom(t, 50)
	r.room.Stock = 4
	first := r.admit(time.Second)
	require.Len(t, first, 4)
	require.Empty(t, r.admit(time.Second))

	r.room.Stock, r.room.Bought = 2, map[uint32]int{1: 2} // two units less, two passes less
	require.Empty(t, r.admit(time.Second))

	r.leave(first[2]) // this server waits for the event, which says that the pass has not bought
	require.Empty(t, r.admit(time.Second))
	r.read(domain.RoomEvent{VoucherID: 1, Kind: domain.RoomLeft, Numbers: first[2:3]})
	require.ErrorIs(t, r.ask(first[2]).err, domain.ErrPlaceLost)
	require.Len(t, r.admit(time.Second), 1)
	require.Empty(t, r.admit(time.Second))

	for n := range uint32(50) { // they are still there when the first passes expire
		r.ask(n)
	}
	r.now = start.Add(31 * time.Second)
	for n := range uint32(50) {
		r.ask(n)
	}
	require.ErrorIs(t, r.ask(first[3]).err, domain.ErrPlaceLost)
	require.Empty(t, r.admit(lateOrder-time.Millisecond), "the order of a purchase in time may not be committed yet")
	require.Len(t, r.admit(time.Second), 1, "of the first four, one had neither bought nor left")
}

// A purchase counts on a server that reads it before its admission, as when the admission was made by another server.
func TestPurchaseIsReadWithItsAdmission(t *testing.T) {
	r := newTestRoom(t, 50)
	r.room.Stock, r.room.Bought = 1, map[uint32]int{1: 2}
	r.read(domain.RoomEvent{
		VoucherID: 1, Kind: domain.RoomAdmitted, At: start, ExpiresAt: start.Add(time.Hour), Numbers: LobbyOrder(r.room.Seed, 50)[:3],
	})
	require.EqualValues(t, 1, r.cursor().Round, "the third pass may still buy, so the purchases of the round are read again")
	r.room.Bought = map[uint32]int{1: 3}
	require.Len(t, r.admit(time.Second), 1, "three passes have bought, so the unit is free")
}

// Buyers that had a pass and did not buy wait behind all others, even those that come later.
func TestUnusedPassGoesBehind(t *testing.T) {
	r := newTestRoom(t, 0)
	r.room.Joined, r.room.Stock = 4, 1
	behind := domain.RoomEvent{VoucherID: 1, Kind: domain.RoomBehind, Numbers: []uint32{0, 2}}
	r.read(behind)
	for n, ahead := range []int{2, 0, 3, 1} {
		require.Equal(t, ahead, r.ask(uint32(n)).ahead, n)
	}

	next := func() uint32 {
		r.room.Stock++ // a unit comes back
		return env.Only(t, r.admit(time.Second))
	}
	r.room.Stock = 0
	require.Equal(t, uint32(1), next())
	require.Equal(t, uint32(3), next())
	r.room.Joined = 5
	r.read()
	require.Equal(t, 0, r.ask(4).ahead, "a buyer that comes later")
	require.Equal(t, 2, r.ask(2).ahead)
	require.Equal(t, uint32(4), next())
	require.Equal(t, uint32(0), next())
	require.Equal(t, uint32(2), next())

	late := &testRoom{line: newLine(), t: t, sale: r.sale, now: r.now, room: r.room}
	late.read(behind)
	require.Equal(t, 3, late.ask(0).ahead, "from what is stored")

	r.room.Joined = 7
	r.read()
	require.Equal(t, 1, r.ask(6).ahead, "those that were behind are not counted any more")
}

// The same events give the same answers on a server that starts later, except that it does not know which buyers are present.
func TestLateServerAgrees(t *testing.T) {
	r := newTestRoom(t, 30)
	first := r.admit(time.Second)
	r.read(domain.RoomEvent{VoucherID: 1, Kind: domain.RoomLeft, Numbers: []uint32{LobbyOrder(r.room.Seed, 30)[15]}})
	late := &testRoom{line: newLine(), t: t, sale: r.sale, now: r.now, room: r.room}
	events := []domain.RoomEvent{
		{VoucherID: 1, Kind: domain.RoomAdmitted, At: start.Add(time.Second), ExpiresAt: start.Add(31 * time.Second), Numbers: first},
		{VoucherID: 1, Kind: domain.RoomLeft, Numbers: []uint32{LobbyOrder(r.room.Seed, 30)[15]}},
	}
	late.read(events...)
	require.Empty(t, late.admit(0))
	for n := range uint32(30) {
		a, b := r.ask(n), late.ask(n)
		require.Equal(t, a.ahead, b.ahead, n)
		require.Equal(t, a.ExpiresAt, b.ExpiresAt, n)
		require.Equal(t, a.State, b.State, n)
	}
	late.read(domain.RoomEvent{VoucherID: 1, Kind: domain.RoomLeft, Numbers: first[:1]})
	require.ErrorIs(t, late.ask(first[0]).err, domain.ErrPlaceLost)
}

// Leaving in the lobby leaves a gap in the line.
func TestLeavingLobby(t *testing.T) {
	r := &testRoom{line: newLine(), t: t, sale: roomSale(), now: start.Add(-time.Minute), room: domain.Room{VoucherID: 1, Joined: 3}}
	r.read(domain.RoomEvent{VoucherID: 1, Kind: domain.RoomLeft, Numbers: []uint32{1}})
	require.ErrorIs(t, r.ask(1).err, domain.ErrPlaceLost)
	require.Equal(t, Stats{Lobby: 2, Left: 1}, r.stats(r.now))
	r.room.StartedAt, r.room.Size, r.room.Stock = start, 3, 10
	r.now = start
	r.read()
	require.ErrorIs(t, r.ask(1).err, domain.ErrPlaceLost)
	require.Equal(t, 1, r.ask(0).ahead+r.ask(2).ahead)
}

// While every unit is held by a pass, the rate does not tell when the next turn comes.
func TestNoEstimateWithoutFreeUnit(t *testing.T) {
	r := newTestRoom(t, 3)
	r.room.Stock = 2
	r.read()
	last := LobbyOrder(r.room.Seed, 3)[2]
	require.Positive(t, r.ask(last).ETA)

	require.Len(t, r.admit(time.Second), 2)
	require.Zero(t, r.ask(last).ETA)

	r.now = r.now.Add(r.sale.Entry.PassTTL + lateOrder)
	r.read()
	require.Positive(t, r.ask(last).ETA)
}

// The interval between questions grows with the time until the turn, and nobody is told to ask before the start.
func TestPollInterval(t *testing.T) {
	r := newTestRoom(t, 5000)
	order := LobbyOrder(r.room.Seed, 5000)
	for position, want := range map[int]time.Duration{0: time.Second, 99: time.Second, 1000: 10 * time.Second, 4999: 30 * time.Second} {
		poll := r.ask(order[position]).poll
		require.GreaterOrEqual(t, poll, want-want/100, position)
		require.LessOrEqual(t, poll, want*3/2, position)
	}
	require.Equal(t, int64(500), r.ask(order[5000-1]).ETA)
	r.sale.Entry.Paused = true
	require.Zero(t, r.ask(order[0]).ETA)

	lobby := &testRoom{line: newLine(), t: t, sale: roomSale(), now: start.Add(-10 * time.Second), room: domain.Room{VoucherID: 1, Joined: 1}}
	lobby.read()
	poll := lobby.ask(0).poll
	require.GreaterOrEqual(t, poll, 10*time.Second)
	require.LessOrEqual(t, poll, 12*time.Second)

	lobby.sale.BeginAt = start.AddDate(900, 0, 0) // further ahead than a duration can be
	for range 100 {
		poll = lobby.ask(0).poll
		require.GreaterOrEqual(t, poll, minPoll)
		require.LessOrEqual(t, poll, maxPoll+minPoll)
	}
}

// A buyer leaves far behind all who have left or were admitted, between two reads of the events.
func TestBuyersAroundOneThatLeft(t *testing.T) {
	r := newTestRoom(t, 20_000)
	ahead := len(r.admit(time.Second))
	gone := r.numberAt(15_000)
	r.leave(gone)
	require.ErrorIs(t, r.ask(gone).err, domain.ErrPlaceLost)
	require.Equal(t, 14_000-ahead, r.ask(r.numberAt(14_000)).ahead)
}

func TestBitmapCounts(t *testing.T) {
	var b bitmap
	for i := uint32(0); i < 20_000; i += 3 {
		b.set(i)
	}
	b.count()
	require.Equal(t, 6667, b.all())
	for _, i := range []uint32{0, 1, 63, 64, 4095, 4096, 4097, 12_288, 19_999, 30_000} {
		require.Equal(t, int(min(i, 20_000)+2)/3, b.below(i), i)
		require.Equal(t, i < 20_000 && i%3 == 0, b.has(i), i)
	}
	b.set(50_000)
	require.Equal(t, 6667, b.below(40_000), "without a count")
	require.Equal(t, 6668, b.below(50_001))
}

// The row of a room and its events are read one after the other, so that the first admissions can arrive before the
// start. They belong to the same buyers afterwards.
func TestAdmissionReadBeforeStart(t *testing.T) {
	r := &testRoom{line: newLine(), t: t, sale: roomSale(), now: start, room: domain.Room{VoucherID: 1, Joined: 20, Stock: 20}}
	order := LobbyOrder([32]byte{7}, 20)
	first := order[:5]
	r.read(domain.RoomEvent{
		VoucherID: 1, Kind: domain.RoomAdmitted, At: start, ExpiresAt: start.Add(time.Minute), Numbers: first,
	})
	r.room.StartedAt, r.room.Size, r.room.Seed = start, 20, [32]byte{7}
	r.read()
	for position, n := range order {
		require.Equal(t, position < len(first), !r.ask(n).ExpiresAt.IsZero(), "position %d", position)
	}
}

// A server that has not read the start yet does not report which of its buyers are next. The first admission waits for
// it, but not for a server that cannot reach the database or has failed.
func TestFirstAdmissionWaitsForOtherServers(t *testing.T) {
	r := newTestRoom(t, 20)
	late := report{At: start.UnixMilli(), Present: 5}
	require.Empty(t, r.admit(time.Second, late))
	late.Started, late.Next = true, []uint32{20}
	require.Contains(t, r.admit(0, late), LobbyOrder(r.room.Seed, 20)[0])

	r = newTestRoom(t, 20)
	r.now = r.now.Add(reportLife)
	require.NotEmpty(t, r.admit(0, report{At: r.now.UnixMilli()}))
}

// A server that starts after an outage reads the log in several steps, and extends the passes that the others held.
func TestLateServerAgreesOnOutage(t *testing.T) {
	r := newTestRoom(t, 20)
	order := LobbyOrder(r.room.Seed, 20)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	admitted := func(position, expires int) domain.RoomEvent {
		return domain.RoomEvent{
			VoucherID: 1, Kind: domain.RoomAdmitted, At: at(1), ExpiresAt: at(expires), Numbers: order[position : position+1],
		}
	}
	outage := domain.RoomEvent{VoucherID: 1, Kind: domain.RoomResumed, Since: at(28), At: at(60)}

	late := &testRoom{line: newLine(), t: t, sale: r.sale, now: at(64), room: r.room}
	late.room.Heartbeat = at(64)
	late.read(admitted(0, 33), admitted(1, 34))
	late.read(outage)
	late.read()
	require.ErrorIs(t, late.ask(order[0]).err, domain.ErrPlaceLost, "it expired before the outage was known")
	require.Equal(t, at(66), late.ask(order[1]).ExpiresAt)
	late.now = at(66)
	late.read()
	require.ErrorIs(t, late.ask(order[1]).err, domain.ErrPlaceLost, "without a further heartbeat")
	late.now = at(66).Add(lateOrder)
	late.room.Heartbeat = late.now
	late.read()
	require.Zero(t, late.outstanding())
}

// A buyer whose pass passed its time in a pause waits for the end of the pause, before all others.
func TestPauseKeepsTurn(t *testing.T) {
	r := newTestRoom(t, 20)
	turns := r.admit(time.Second)
	r.room.Heartbeat = r.now
	r.read()
	r.now = r.now.Add(time.Minute)
	r.read()
	require.ErrorIs(t, r.ask(turns[0]).err, domain.ErrUnavailable, "an outage")
	r.sale.Entry.Paused = true
	first := r.ask(turns[0])
	require.Equal(t, Waiting, first.State)
	require.Zero(t, first.ahead)
	require.GreaterOrEqual(t, first.poll, minPoll)

	// Until the end is read.
	r.pause()
	r.sale.Entry.Paused = false
	require.Equal(t, Waiting, r.ask(turns[0]).State)
	resumed := domain.RoomEvent{VoucherID: 1, Kind: domain.RoomResumed, Since: r.room.Heartbeat, At: r.now}
	r.room.Heartbeat = r.now
	r.read(resumed)
	require.Equal(t, Admitted, r.ask(turns[0]).State)
}

func TestStatsFollowTheRoom(t *testing.T) {
	r := newTestRoom(t, 20)
	reports := func(others ...report) Stats {
		r.keep(append(others, r.report(0, r.now)))
		return r.stats(r.now)
	}
	require.Equal(t, Stats{Waiting: 20, Present: 20}, reports())
	first := r.admit(time.Second)
	require.Equal(t, Stats{Waiting: 10, Present: 10, Admitted: 10, Outstanding: 10}, reports())

	r.room.Bought = map[uint32]int{1: 3}
	r.read()
	other := report{At: r.now.UnixMilli(), Present: 5}
	require.Equal(t, Stats{Waiting: 10, Present: 15, Admitted: 10, Outstanding: 7, Used: 3}, reports(other))
	other.At -= 2 * reportLife.Milliseconds() // that server has stopped
	require.Equal(t, Stats{Waiting: 10, Present: 10, Admitted: 10, Outstanding: 7, Used: 3}, reports(other))

	waits := LobbyOrder(r.room.Seed, 20)[15]
	r.read(domain.RoomEvent{VoucherID: 1, Kind: domain.RoomLeft, Numbers: []uint32{first[5], waits}})
	require.Equal(t, Stats{Waiting: 9, Present: 9, Admitted: 10, Outstanding: 6, Used: 3, Left: 2}, reports(other))

	r.now = r.now.Add(30*time.Second + lateOrder) // the passes have expired, and nobody has polled since
	r.read()
	require.Equal(t, Stats{Waiting: 9, Admitted: 10, Left: 2}, reports(other))
}

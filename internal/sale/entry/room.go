package entry

import (
	"cmp"
	"encoding/hex"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/domain"
)

const (
	// minPoll and maxPoll bound the interval at which a waiting buyer polls. It is shortest at the front of the line: a
	// buyer polls about pollsPerWait times before the turn.
	minPoll      = time.Second
	maxPoll      = 30 * time.Second
	pollsPerWait = 10
	// startSpread is the time after the start, per buyer of the lobby, over which their polls are spread.
	startSpread = 50 * time.Microsecond
	// absentAfter is how long after the announced time a buyer without a poll still counts as present.
	absentAfter = 10 * time.Second
	// admitBurst bounds what a room catches up after a pause of its admissions.
	admitBurst = 2 * time.Second
	// lateOrder is how long after its end a pass still stands for a unit: the order of a purchase that came in time may be
	// committed as late as that.
	lateOrder = 5 * time.Second
)

// line is the waiting room of one sale in the memory of this process. All of it but seen follows from what is stored, so
// every server gives the same answers, and a server that restarts gives the ones it gave before.
//
// A place has a number, in the order of arrival, and a position in the line. Both are the same except in the lobby after the
// start, which is drawn then. A waiting buyer costs 8 bytes for the draw, 4 for the presence and a bit.
type line struct {
	mu      sync.Mutex
	room    domain.Room // without events
	seed    string      // that of room in hexadecimal, once the lobby is drawn
	applied uint32      // number of events
	// numbers are those of the lobby by position; nil before the start.
	numbers []uint32
	// positions are those of the lobby by number.
	positions []uint32
	// over is by position: admitted or left.
	over bitmap
	// behind is by position: waiting behind all others, after a pass that was not used.
	behind bitmap
	// seen is by number: Unix time in seconds until which the buyer is present.
	seen []uint32
	// passes is by number: the sequence number of the round.
	passes map[uint32]uint32
	// rounds are those whose passes are valid, or were less than lateOrder ago, by sequence number.
	rounds []round
	// admitAt is until when the rate is used up.
	admitAt time.Time
	// sale is as the buyers know it; written by the tick.
	sale saleView

	// present is the number of present buyers on all servers, at the last admission.
	present int

	// admitted and left are buyers by event, including those whose passes have expired.
	admitted, left int
	// paused is the last heartbeat before a pause.
	paused time.Time
	// reports are those of all servers, as of the last exchange.
	reports []report

	// ready means that the room has been read.
	ready atomic.Bool
	// asked is when a request last needed the room; protected by Rooms.
	asked time.Time
}

// saleView is what buyers see of a sale beside their places.
type saleView struct {
	state domain.SaleState
	entry domain.Entry
}

// round is one admission of several buyers.
type round struct {
	seq uint32
	// expires is later than in the event after an outage.
	expires time.Time
	// buyers excludes the places that were left.
	buyers int
	// bought is the number of orders that were placed with a pass of the round.
	bought int
}

func newLine() *line {
	return &line{passes: map[uint32]uint32{}}
}

func (l *line) positionOf(number uint32) uint32 {
	if int(number) < len(l.positions) {
		return l.positions[number]
	}
	return number
}

func (l *line) numberAt(position uint32) uint32 {
	if int(position) < len(l.numbers) {
		return l.numbers[position]
	}
	return position
}

// apply brings the line up to date with what was read at now, and reports whether anything changed for waiting buyers.
func (l *line) apply(r domain.Room, now time.Time) bool {
	var order []uint32
	l.mu.Lock()
	starts := l.room.StartedAt.IsZero() && !r.StartedAt.IsZero()
	l.mu.Unlock()

	// Compute the order without the lock, because a large lobby takes half a second.
	if starts {
		order = LobbyOrder(r.Seed, r.Size)
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	if starts {
		l.start(order)
		l.admitAt = r.StartedAt
	}

	changed := starts || len(r.Events) > 0
	for i := range r.Events {
		l.applyEvent(&r.Events[i])
	}

	for i := range l.rounds {
		if n, ok := r.Bought[l.rounds[i].seq]; ok {
			l.rounds[i].bought = n
		}
	}

	r.Events = nil
	r.Bought = nil
	l.room = r
	if r.Size > 0 {
		l.seed = hex.EncodeToString(r.Seed[:])
	}

	// With changes there may be more events to read, which extend passes.
	if !changed {
		l.expire(now)
	}

	l.count()
	return changed
}

// cursor returns what this line has to read next. A round whose passes have all bought does not change any more.
func (l *line) cursor() domain.RoomCursor {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := domain.RoomCursor{Applied: l.applied, Round: l.applied + 1}
	for _, round := range l.rounds {
		if round.bought < round.buyers {
			c.Round = min(c.Round, round.seq)
		}
	}
	return c
}

func (l *line) count() {
	l.over.count()
	l.behind.count()
}

func (l *line) expire(now time.Time) {
	at := l.passTime(now)
	valid := len(l.rounds)
	l.rounds = slices.DeleteFunc(l.rounds, func(r round) bool { return !r.expires.Add(lateOrder).After(at) })
	if len(l.rounds) == valid {
		return
	}
	maps.DeleteFunc(l.passes, func(_, seq uint32) bool { return l.round(seq) == nil })
}

// passTime returns the time by which passes expire. It stands still during an outage or a pause, whose end extends the passes
// that are left.
func (l *line) passTime(now time.Time) time.Time {
	if l.room.Heartbeat.IsZero() {
		return now
	}
	return domain.Earlier(now, l.room.Heartbeat.Add(domain.RoomOutage))
}

func (l *line) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = l.room.Heartbeat
}

// resume applies the end of an outage: the passes that had not expired get its time back.
func (l *line) resume(e *domain.RoomEvent) {
	stood := e.Since.Add(domain.RoomOutage)
	for i := range l.rounds {
		if r := &l.rounds[i]; r.expires.After(stood) {
			r.expires = r.expires.Add(e.At.Sub(e.Since))
		}
	}
}

func (l *line) round(seq uint32) *round {
	i, found := slices.BinarySearchFunc(l.rounds, seq, func(r round, seq uint32) int { return cmp.Compare(r.seq, seq) })
	if !found {
		return nil
	}
	return &l.rounds[i]
}

func (l *line) start(order []uint32) {
	l.numbers = order
	l.positions = make([]uint32, len(order))
	for position, number := range order {
		l.positions[number] = uint32(position) //nolint:gosec // fits: an index of order
	}

	left := l.over
	l.over = bitmap{}
	for number := range uint32(64 * len(left.words)) { //nolint:gosec // numbers have 32 bits
		if left.has(number) {
			l.over.set(l.positionOf(number))
		}
	}
}

func (l *line) applyEvent(e *domain.RoomEvent) {
	if e.Seq <= l.applied {
		return
	}
	l.applied = e.Seq

	switch e.Kind {
	case domain.RoomLeft:
		l.left += len(e.Numbers)
		for _, n := range e.Numbers {
			l.remove(n)
		}
	case domain.RoomBehind:
		for _, n := range e.Numbers {
			l.behind.set(l.positionOf(n))
		}
	case domain.RoomAdmitted:
		l.admit(e)
	case domain.RoomResumed:
		l.resume(e)
	}
}

func (l *line) admit(e *domain.RoomEvent) {
	l.admitAt = e.At
	l.present = e.Present
	l.admitted += len(e.Numbers)

	l.rounds = append(l.rounds, round{
		seq:     e.Seq,
		expires: e.ExpiresAt,
		buyers:  len(e.Numbers),
	})

	for _, n := range e.Numbers {
		l.end(l.positionOf(n))
		l.passes[n] = e.Seq
	}
}

func (l *line) end(position uint32) {
	l.over.set(position)
	l.behind.clear(position)
}

// leave takes a place out of the line before its event is read, unless it is admitted.
func (l *line) leave(number uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, admitted := l.passes[number]; !admitted {
		l.remove(number)
	}
}

// turnOf reports whether the turn of a number has come or its buyer has left, and the round of its pass while that is one of
// rounds; 0 otherwise.
func (l *line) turnOf(number uint32) (bool, uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over.has(l.positionOf(number)), l.passes[number]
}

// remove takes a place out of the line. Its pass, if there is one, stays valid but no longer stands for a unit.
func (l *line) remove(number uint32) {
	l.end(l.positionOf(number))
	if round := l.round(l.passes[number]); round != nil {
		round.buyers--
	}
	delete(l.passes, number)
}

// poll returns the state of a place, without its proofs, and the round of its pass unless that has expired. It marks a waiting
// buyer as present. Errors: domain.ErrPlaceLost (the buyer left, or the pass has expired), domain.ErrUnavailable (no
// server can sell; the pass is extended by that time).
func (l *line) poll(number uint32, sale *domain.Sale, now time.Time) (Admission, uint32, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	a := Admission{
		State:   Waiting,
		Paused:  sale.Entry.Paused,
		Message: sale.Entry.Message,
		Lobby:   &LobbyPlace{Number: number, Size: l.room.Size, Seed: l.seed},
	}

	if r := l.round(l.passes[number]); r != nil && r.expires.After(l.passTime(now)) {
		switch {
		case r.expires.After(now):
			a.State = Admitted
			a.ExpiresAt = r.expires

		case !sale.Entry.Paused && !l.room.Heartbeat.Equal(l.paused):
			return Admission{}, r.seq, domain.ErrUnavailable

		default:
			// Until the pause ends, and this server reads that, the buyer is the first in line.
			a.Ahead = new(int)
			a.Position = 1
			a.Poll = (minPoll + rand.N(minPoll)).Milliseconds()
		}

		return a, r.seq, nil
	}

	position := l.positionOf(number)
	if l.over.has(position) {
		return Admission{}, 0, domain.ErrPlaceLost
	}

	var poll time.Duration
	if l.room.StartedAt.IsZero() {
		a.State = Lobby
		spread := max(minPoll, time.Duration(l.room.Joined)*startSpread)
		// The bound comes before the sum, which could overflow.
		untilStart := min(maxPoll, max(0, sale.BeginAt.Sub(now)))
		poll = min(maxPoll, untilStart+rand.N(spread)) + rand.N(minPoll)
	} else {
		ahead := l.ahead(position)
		a.Ahead = &ahead
		a.Position = ahead + 1

		wait := l.wait(ahead, sale.Entry.Rate)
		// The rate tells nothing while every unit is held by a pass.
		if !sale.Entry.Paused && l.room.Stock > l.outstanding() {
			a.ETA = int64((wait + time.Second - 1) / time.Second)
		}

		poll = min(max(wait/pollsPerWait, minPoll), maxPoll)
		poll += rand.N(poll / 2)
	}

	l.markPresent(number, now.Add(poll+absentAfter))
	a.Poll = poll.Milliseconds()
	return a, 0, nil
}

func (l *line) ahead(position uint32) int {
	n := int(position) - l.over.below(position) - l.behind.below(position)
	if l.behind.has(position) {
		n = l.waiting() - l.behind.all() + l.behind.below(position)
	}
	return max(n, 0)
}

func (l *line) waiting() int { return int(l.room.Joined) - l.over.all() }

func (l *line) markPresent(number uint32, until time.Time) {
	if int(number) >= len(l.seen) {
		l.seen = slices.Grow(l.seen, int(number)+1-len(l.seen))[:number+1]
	}
	l.seen[number] = uint32(until.Unix()) //nolint:gosec // before 2106
}

func (l *line) wait(ahead, rate int) time.Duration {
	if waiting := l.waiting(); l.present > 0 && l.present < waiting {
		ahead = ahead * l.present / waiting
	}
	return time.Duration(ahead+1) * time.Second / time.Duration(rate)
}

// report is what a server knows about a room and others do not: the present buyers.
type report struct {
	At int64 `json:"at"` // Unix time in milliseconds
	// Started means that the server knows the order of the lobby; otherwise Next is empty.
	Started bool `json:"started"`
	Present int  `json:"present"` // number of buyers
	// Next are the first numbers of these, in the order of the line.
	Next []uint32 `json:"next"`
}

func (l *line) report(most int, now time.Time) report {
	l.mu.Lock()
	defer l.mu.Unlock()

	r := report{At: now.UnixMilli(), Started: !l.room.StartedAt.IsZero()}
	second := uint32(now.Unix()) //nolint:gosec // before 2106

	var behind []uint32
	for position := range uint32(max(len(l.seen), len(l.numbers))) { //nolint:gosec // numbers have 32 bits
		number := l.numberAt(position)
		if int(number) >= len(l.seen) || l.seen[number] <= second || l.over.has(position) {
			continue
		}

		r.Present++
		switch {
		case l.behind.has(position):
			behind = append(behind, number)
		case len(r.Next) < most:
			r.Next = append(r.Next, number)
		}
	}

	free := min(most-len(r.Next), len(behind))
	r.Next = append(r.Next, behind[:free]...)
	return r
}

// reportLife is how long the list of present buyers of a server is valid.
const reportLife = 5 * time.Second

// admitNext returns the admission that is due, with the next sequence number, or one without numbers. At most rate buyers
// are admitted per second, and no more than there are units for: passes that have not bought count as units until lateOrder
// after their end.
func (l *line) admitNext(sale *domain.Sale, stock int64, now time.Time) domain.RoomEvent {
	l.mu.Lock()
	defer l.mu.Unlock()

	e := domain.RoomEvent{
		VoucherID: l.room.VoucherID,
		Seq:       l.applied + 1,
		Kind:      domain.RoomAdmitted,
		At:        domain.Moment(now),
		ExpiresAt: domain.Moment(now.Add(sale.Entry.PassTTL)),
	}

	from := l.admitAt

	// The second condition is a clock that went back.
	if oldest := now.Add(-admitBurst); from.Before(oldest) || from.After(now.Add(admitBurst)) {
		from = oldest
	}

	due := int64(now.Sub(from)) * int64(sale.Entry.Rate) / int64(time.Second)
	most := min(due, stock-l.outstanding())
	if most <= 0 {
		return e
	}

	var positions []uint32
	for _, r := range l.reports {
		if now.Sub(time.UnixMilli(r.At)) > reportLife {
			continue
		}

		// Otherwise the buyers of that server would be passed over.
		if !r.Started && now.Sub(l.room.StartedAt) < reportLife {
			return domain.RoomEvent{}
		}

		e.Present += r.Present
		for _, n := range r.Next {
			if p := l.positionOf(n); !l.over.has(p) {
				positions = append(positions, p)
			}
		}
	}

	slices.SortFunc(positions, l.compare)
	positions = slices.Compact(positions)
	positions = positions[:min(int64(len(positions)), most)]
	for _, p := range positions {
		e.Numbers = append(e.Numbers, l.numberAt(p))
	}

	// The fraction of a buyer is due next time.
	if int64(len(positions)) == due {
		e.At = domain.Moment(from.Add(time.Duration(due) * time.Second / time.Duration(sale.Entry.Rate)))
	}

	return e
}

func (l *line) compare(a, b uint32) int {
	switch {
	case l.behind.has(a) == l.behind.has(b):
		return cmp.Compare(a, b)
	case l.behind.has(a):
		return 1
	}
	return -1
}

func (l *line) outstanding() int64 {
	n := int64(0)
	for _, round := range l.rounds {
		n += int64(max(round.buyers-round.bought, 0))
	}
	return n
}

// bitmap is a set of positions that knows how many of its members are below a position.
type bitmap struct {
	words []uint64
	// sums are the members in the blocks before this one, as of count.
	sums []int
}

// blockWords is the number of words in a block.
const blockWords = 64

func (b *bitmap) has(i uint32) bool {
	return int(i/64) < len(b.words) && b.words[i/64]>>(i%64)&1 == 1
}

func (b *bitmap) set(i uint32) {
	if need := int(i/64) + 1; need > len(b.words) {
		b.words = slices.Grow(b.words, need-len(b.words))[:need]
	}
	b.words[i/64] |= 1 << (i % 64)
}

func (b *bitmap) clear(i uint32) {
	if int(i/64) < len(b.words) {
		b.words[i/64] &^= 1 << (i % 64)
	}
}

func (b *bitmap) count() {
	b.sums = b.sums[:0]
	sum := 0
	for i, w := range b.words {
		if i%blockWords == 0 {
			b.sums = append(b.sums, sum)
		}
		sum += bits.OnesCount64(w)
	}
	b.sums = append(b.sums, sum)
}

func (b *bitmap) all() int {
	if len(b.sums) == 0 {
		return 0
	}
	return b.sums[len(b.sums)-1]
}

// below returns the number of members less than i. Members that were added after count may be missing.
func (b *bitmap) below(i uint32) int {
	word := int(i / 64)
	if word >= len(b.words) {
		return b.all()
	}

	n := b.all()
	if block := word / blockWords; block < len(b.sums) {
		n = b.sums[block]
	}

	for _, w := range b.words[word/blockWords*blockWords : word] {
		n += bits.OnesCount64(w)
	}

	return n + bits.OnesCount64(b.words[word]&(1<<(i%64)-1))
}

package entry_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/sale/entry"
	"seckill/test/env"
)

type sale struct{ domain.Voucher }

func (s sale) Get(context.Context, int64) (*domain.Voucher, error) { return &s.Voucher, nil }

// limits is a Limits with the same result for every user.
type limits struct {
	err    error
	record domain.SaleRecord
}

func (l limits) MayEnter(context.Context, int64, *domain.Voucher, time.Time) (domain.SaleRecord, error) {
	return l.record, l.err
}

// queued is a Reservations with the same result for every user.
type queued struct {
	tickets []domain.Ticket
	err     error
}

func (q queued) Tickets(context.Context, int64) ([]domain.Ticket, error) {
	return slices.Clone(q.tickets), q.err
}

// ticket is a queued order of voucher 1, or one that has failed.
func ticket(order int64, round uint32, failed string) domain.Ticket {
	return domain.Ticket{Admission: domain.Admission{OrderID: order, VoucherID: 1, Round: round}, Failed: failed}
}

// A user beyond the limits of unpaid orders gets no pass. Open sales do not check them.
func TestUnpaidOrdersGetNoPass(t *testing.T) {
	s, sale := challenged(nil, nil, func() time.Time { return now })
	sale.Entry.Challenge = false
	s.Limits = limits{err: domain.ErrUnpaidLimit}
	a, err := s.Enter(t.Context(), 7, 1, "")
	require.ErrorIs(t, err, domain.ErrUnpaidLimit)
	require.Empty(t, a.Pass)
	s.Limits = limits{}
	a = env.Must(s.Enter(t.Context(), 7, 1, ""))(t)
	require.NotEmpty(t, a.Pass)
	sale.Entry.Mode = domain.EntryOpen
	s.Limits = limits{err: domain.ErrUnpaidLimit}
	env.Must(s.Enter(t.Context(), 7, 1, ""))(t)
}

// The room gives no place to a user whose order is stored or queued. It gives one after a failed order, and for the second of
// two orders that the sale allows.
// Without Redis buyers get their places.
func TestQueuedOrderGetsNoPlace(t *testing.T) {
	simulate(t, func() *world { return newWorld(0, 1) }, func(t *testing.T, w *world, server *entry.Service) {
		server.Limits = limits{}
		w.vouchers[1].Sale.BeginAt = time.Now()
		enter := func(q queued) error {
			server.Queued = q
			return env.Err(server.Enter(t.Context(), 7, 1, ""))
		}
		var held *domain.DuplicateOrderError
		require.ErrorAs(t, enter(queued{tickets: []domain.Ticket{ticket(33, 1, "")}}), &held)
		require.Equal(t, int64(33), held.OrderID)
		require.Zero(t, w.count("JoinRoom"))

		other := ticket(34, 1, "")
		other.VoucherID = 2
		require.NoError(t, enter(queued{tickets: []domain.Ticket{other, ticket(35, 1, "sold_out")}}))
		require.NoError(t, enter(queued{err: domain.ErrUnavailable}))
		w.vouchers[1].Sale.LimitPerUser = 2
		require.NoError(t, enter(queued{tickets: []domain.Ticket{ticket(33, 1, "")}}))
		server.Limits = limits{record: domain.SaleRecord{Active: 1}}
		require.ErrorAs(t, enter(queued{tickets: []domain.Ticket{ticket(33, 1, "")}}), &held)
		server.Limits = limits{err: &domain.DuplicateOrderError{OrderID: 36}}
		require.ErrorAs(t, enter(queued{}), &held)
		require.Equal(t, int64(36), held.OrderID)
	})
}

// What a server knows of a place that is given up: whether its turn has come, whether its pass is valid, and whether a
// queued order has bought with it.
func TestLeaveTellsWhatBecameOfThePass(t *testing.T) {
	simulate(t, func() *world { return newWorld(0, 1) }, func(t *testing.T, w *world, server *entry.Service) {
		server.Limits = limits{}
		w.vouchers[1].Sale.BeginAt = time.Now()
		leave := func(user int64, tickets ...domain.Ticket) domain.RoomPlace {
			server.Queued = queued{tickets: tickets}
			number := w.places[domain.SaleUser{UserID: user, VoucherID: 1}]
			require.NoError(t, server.Leave(t.Context(), user, 1, server.Tickets.Issue(user, 1, number)))
			return w.left[len(w.left)-1]
		}
		for user := range int64(3) {
			env.Must(server.Enter(t.Context(), user, 1, ""))(t)
			if user == 1 {
				time.Sleep(2 * time.Second)
				w.change(func() { w.vouchers[1].Sale.Entry.Paused = true })
				time.Sleep(time.Second)
			}
		}
		require.Equal(t, domain.RoomPlace{VoucherID: 1, UserID: 2, Number: 2}, leave(2, ticket(33, 1, "")), "waits")
		require.Equal(t, domain.RoomPlace{VoucherID: 1, UserID: 0, Number: 0, Over: true, Pass: true}, leave(0, ticket(33, 9, "")), "bought with another pass")
		require.Equal(t, domain.RoomPlace{VoucherID: 1, UserID: 1, Number: 1, Over: true, Pass: true, Bought: true}, leave(1, ticket(33, 1, "")))
		time.Sleep(time.Minute)
		require.Equal(t, domain.RoomPlace{VoucherID: 1, UserID: 1, Number: 1, Over: true}, leave(1), "the pass has expired")
	})
}

// A buyer who has bought with a pass enters again at the end of the line, and only once.
func TestUsedPassCostsThePlace(t *testing.T) {
	simulate(t, func() *world { return newWorld(0, 1) }, func(t *testing.T, w *world, server *entry.Service) {
		server.Limits = limits{}
		w.vouchers[1].Sale.BeginAt = time.Now()
		enter := func(user int64) entry.Admission {
			return env.Must(server.Enter(t.Context(), user, 1, ""))(t)
		}
		enter(7)
		time.Sleep(2 * time.Second)
		require.Equal(t, entry.Admitted, enter(7).State)
		w.change(func() { w.vouchers[1].Sale.Entry.Paused = true })
		time.Sleep(2 * time.Second)
		require.Equal(t, entry.Waiting, enter(8).State)

		server.Limits = limits{record: domain.SaleRecord{LastRound: 1}}
		again := enter(7)
		require.Equal(t, entry.Waiting, again.State)
		require.Equal(t, 1, *again.Ahead, "behind the buyer that waits")
		require.Equal(t, again.Lobby.Number, enter(7).Lobby.Number)

		w.change(func() { w.vouchers[1].Sale.Entry.Paused = false })
		for range 4 {
			time.Sleep(time.Second)
			enter(8)
			again = enter(7)
		}
		require.Equal(t, entry.Admitted, again.State, "the next pass is good")
	})
}

// riddle is a HumanProof with the solution "good". It counts its challenges.
type riddle struct{ challenges int }

var errWrong = errors.New("wrong")

func (r *riddle) Challenge(context.Context, int64, int64) (json.RawMessage, error) {
	r.challenges++
	return json.RawMessage(`{"riddle":1}`), nil
}

func (r *riddle) Verify(_ context.Context, _, _ int64, solution string) (string, error) {
	switch solution {
	case "good":
		return "id", nil
	case "busy":
		return "", domain.ErrOverloaded
	}
	return "", errWrong
}

// used remembers ids for the time that UseUp gets, or fails.
type used struct {
	until  map[string]time.Duration // by id
	passed time.Duration
	err    error
}

func (u *used) UseUp(_ context.Context, id string, keep time.Duration) (bool, error) {
	if u.err != nil {
		return false, u.err
	}
	first := u.passed >= u.until[id]
	if first {
		u.until[id] = u.passed + keep
	}
	return first, nil
}

// challenged returns a Service of a sale in mode pass that demands a challenge.
func challenged(human entry.HumanProof, solutions entry.UsedSolutions, clock func() time.Time) (*entry.Service, *domain.Sale) {
	terms := &domain.Sale{
		Stock: 1, BeginAt: now, EndAt: now.Add(time.Hour), LimitPerUser: 1,
		Entry: domain.Entry{Mode: domain.EntryPass, PassTTL: time.Second, Challenge: true},
	}
	return &entry.Service{
		Sales:     sale{domain.Voucher{ID: 1, Type: domain.VoucherSeckill, Status: domain.VoucherOn, Sale: terms}},
		Passes:    entry.NewPasses(newKey),
		Tickets:   entry.NewTickets(newKey),
		Limits:    limits{},
		Human:     human,
		Solutions: solutions,
		Now:       clock,
	}, terms
}

var challengeSecrets = domain.NewKeyring([]byte("a secret of the challenges of tests!"))

func TestEntryWithChallenge(t *testing.T) {
	const upcoming, running, soldOut, ended = "upcoming", "running", "sold out", "ended"
	for _, c := range []struct {
		name, sale, solution string
		used                 time.Duration // until when the solution is used up
		off                  bool
		redis, want          error
		demand               string // the reason of a *domain.ChallengeRequiredError
		usesUp               bool
	}{
		{name: "no solution before the start", sale: upcoming, demand: "wrong"},
		{name: "solution before the start", sale: upcoming, solution: "good", want: domain.ErrSaleNotStarted},
		{name: "no solution", sale: running, demand: "wrong"},
		{name: "solution", sale: running, solution: "good", usesUp: true},
		{name: "used solution", sale: running, solution: "good", used: time.Hour, demand: "the solution was used before", usesUp: true},
		{name: "verifier is busy", sale: running, solution: "busy", want: domain.ErrOverloaded},
		{name: "Redis is down", sale: running, solution: "good", redis: domain.ErrUnavailable, want: domain.ErrUnavailable},
		{name: "sold out", sale: soldOut, want: domain.ErrSoldOut},
		{name: "ended", sale: ended, want: domain.ErrSaleEnded},
		{name: "no challenge", sale: running, off: true},
		{name: "no challenge before the start", sale: upcoming, off: true, want: domain.ErrSaleNotStarted},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := now
			human, solutions := &riddle{}, &used{until: map[string]time.Duration{"id": c.used}, err: c.redis}
			s, sale := challenged(human, solutions, func() time.Time { return at })
			sale.Entry.Challenge = !c.off
			switch c.sale {
			case upcoming:
				at = now.Add(-time.Millisecond)
			case soldOut:
				sale.Stock = 0
			case ended:
				at = sale.EndAt
			}
			admission, err := s.Enter(t.Context(), 7, 1, c.solution)
			require.Equal(t, c.usesUp, solutions.until["id"] > 0)
			if c.demand == "" {
				require.ErrorIs(t, err, c.want)
				require.Zero(t, human.challenges)
				require.Equal(t, c.want == nil, admission.Pass != "")
				return
			}
			var demanded *domain.ChallengeRequiredError
			require.ErrorAs(t, err, &demanded)
			require.Equal(t, c.demand, demanded.Reason)
			require.JSONEq(t, `{"riddle":1}`, string(demanded.Challenge))
			require.Empty(t, admission.Pass)
		})
	}
}

// Two servers share the used solutions, and each knows only the solutions that it has seen. A buyer whose solution is used
// up enters again at once on either of them.
func TestEntryAfterChallengeIsSolved(t *testing.T) {
	clock := func() time.Time { return now }
	solutions := &used{until: map[string]time.Duration{}}
	a, _ := challenged(entry.NewWork(challengeSecrets, clock), solutions, clock)
	b, _ := challenged(entry.NewWork(challengeSecrets, clock), solutions, clock)
	demanded := func(s *entry.Service, solution string) json.RawMessage {
		_, err := s.Enter(t.Context(), 7, 1, solution)
		var demanded *domain.ChallengeRequiredError
		require.ErrorAs(t, err, &demanded)
		return demanded.Challenge
	}

	first := demanded(a, "")
	solution := env.Must(env.SolveChallenge(first))(t)
	env.Must(b.Enter(t.Context(), 7, 1, solution))(t)
	onB := demanded(b, "")
	require.NotEqual(t, first, onB)
	require.Equal(t, first, demanded(a, ""), "a has not seen the solution")

	onA := demanded(a, solution)
	require.NotEqual(t, first, onA)
	for _, challenge := range []json.RawMessage{onA, onB} {
		env.Must(a.Enter(t.Context(), 7, 1, env.Must(env.SolveChallenge(challenge))(t)))(t)
	}
}

// The clock of a server is set back by ten minutes after a solution was used. By that clock the solution is valid for longer,
// but it does not work again.
func TestSolutionWorksOnceAfterClockGoesBack(t *testing.T) {
	solutions := &used{until: map[string]time.Duration{}}
	step := time.Duration(0)
	clock := func() time.Time { return now.Add(solutions.passed + step) }
	s, sale := challenged(entry.NewWork(challengeSecrets, clock), solutions, clock)
	sale.BeginAt = now.Add(-time.Hour)
	_, err := s.Enter(t.Context(), 7, 1, "")
	var demanded *domain.ChallengeRequiredError
	require.ErrorAs(t, err, &demanded)
	solution := env.Must(env.SolveChallenge(demanded.Challenge))(t)
	env.Must(s.Enter(t.Context(), 7, 1, solution))(t)

	step = -10 * time.Minute
	for ; solutions.passed < 20*time.Minute; solutions.passed += 30 * time.Second {
		env.Fails(s.Enter(t.Context(), 7, 1, solution))(t, &demanded, "after %s", solutions.passed)
	}
}

// A place in a room uses a solution up; a failed attempt to get one does not.
func TestRoomWithChallenge(t *testing.T) {
	simulate(t, func() *world { return newWorld(0, 1) }, func(t *testing.T, w *world, server *entry.Service) {
		server.Limits, server.Human, server.Solutions = limits{}, &riddle{}, &used{until: map[string]time.Duration{}}
		w.vouchers[1].Sale.Entry.Challenge = true
		enter := func(solution string) (entry.Admission, error) { return server.Enter(t.Context(), 7, 1, solution) }
		var demanded *domain.ChallengeRequiredError
		env.Fails(enter(""))(t, &demanded)
		w.change(func() { w.down = true })
		env.Fails(enter("good"))(t, domain.ErrUnavailable)
		w.change(func() { w.down = false })
		require.Equal(t, entry.Lobby, env.Must(enter("good"))(t).State)
		env.Fails(enter("good"))(t, &demanded)
	})
}

var (
	now    = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	oldKey = domain.NewKeyring([]byte("an old secret of at least 32 bytes"))
	newKey = domain.NewKeyring([]byte("a new secret of at least 32 bytes!"))
)

func TestPassIsValidForItsUserSaleAndTime(t *testing.T) {
	passes := entry.NewPasses(oldKey)
	pass := passes.Issue(7, 1, 3, 9, now.Add(10*time.Second))
	require.NoError(t, check(passes, pass, 7, 1, 3, now))
	require.NoError(t, check(passes, pass, 7, 1, 3, now.Add(9999*time.Millisecond)))
	for name, err := range map[string]error{
		"borrowed":      check(passes, pass, 8, 1, 3, now),
		"other sale":    check(passes, pass, 7, 2, 3, now),
		"swapped ids":   check(passes, pass, 1, 7, 3, now),
		"empty":         check(passes, "", 7, 1, 3, now),
		"other secret":  check(entry.NewPasses(domain.Keyring{{ID: oldKey[0].ID, Secret: newKey[0].Secret}}), pass, 7, 1, 3, now),
		"unknown key":   check(entry.NewPasses(newKey), pass, 7, 1, 3, now),
		"not base64url": check(passes, "!"+pass[1:], 7, 1, 3, now),
		"longer":        check(passes, pass+"A", 7, 1, 3, now),
	} {
		require.ErrorIs(t, err, domain.ErrEntryRequired, name)
	}
	require.ErrorIs(t, check(passes, pass, 7, 1, 3, now.Add(10*time.Second)), domain.ErrPassExpired, "expired")
	require.ErrorIs(t, check(passes, pass, 7, 1, 4, now), domain.ErrPassExpired, "revoked")
}

// Every change of a single bit invalidates a pass.
func TestPassCannotBeForged(t *testing.T) {
	passes := entry.NewPasses(oldKey)
	raw := env.Must(base64.RawURLEncoding.DecodeString(passes.Issue(7, 1, 3, 9, now.Add(time.Minute))))(t)
	for i := range raw {
		for bit := range 8 {
			raw[i] ^= 1 << bit
			require.ErrorIs(t, check(passes, base64.RawURLEncoding.EncodeToString(raw), 7, 1, 3, now), domain.ErrEntryRequired, "byte %d, bit %d", i, bit)
			raw[i] ^= 1 << bit
		}
	}
}

// A pass of mode pass names no round, one of a waiting room names its own. A ticket is no pass, and a pass no ticket.
func TestPassNamesItsRound(t *testing.T) {
	passes := entry.NewPasses(oldKey)
	for _, round := range []uint32{0, 1, 1<<32 - 1} {
		pass := passes.Issue(7, 1, 3, round, now.Add(time.Minute))
		require.Equal(t, round, env.Must(passes.Check(pass, 7, 1, 3, now))(t))
		env.Fails(entry.NewTickets(oldKey).Number(pass, 7, 1))(t, domain.ErrEntryRequired)
	}
	env.Fails(passes.Check(entry.NewTickets(oldKey).Issue(7, 1, 3), 7, 1, 3, now))(t, domain.ErrEntryRequired)
}

// A new key signs while the old one is still accepted.
func TestPassesOfReplacedKey(t *testing.T) {
	old := entry.NewPasses(oldKey).Issue(7, 1, 0, 0, now.Add(time.Minute))
	both := entry.NewPasses(append(newKey, oldKey...))
	require.NoError(t, check(both, old, 7, 1, 0, now))
	sameID := domain.Keyring{{ID: oldKey[0].ID, Secret: newKey[0].Secret}, oldKey[0]}
	require.NoError(t, check(entry.NewPasses(sameID), old, 7, 1, 0, now), "the id in a pass has one byte, so two secrets may share it")
	pass := both.Issue(7, 1, 0, 0, now.Add(time.Minute))
	require.NoError(t, check(entry.NewPasses(newKey), pass, 7, 1, 0, now))
	require.ErrorIs(t, check(entry.NewPasses(oldKey), pass, 7, 1, 0, now), domain.ErrEntryRequired)
}

func check(passes *entry.Passes, pass string, userID, voucherID int64, epoch uint32, now time.Time) error {
	return env.Err(passes.Check(pass, userID, voucherID, epoch, now))
}

// shuffledIndex is compute_shuffled_index of Ethereum's consensus specification, written line by line after its text
// and not after entry.LobbyOrder.
func shuffledIndex(index, count uint64, seed [32]byte) uint64 {
	for round := range byte(90) {
		text := append(seed[:], round)
		head := sha256.Sum256(text)
		pivot := binary.LittleEndian.Uint64(head[:8]) % count
		flip := (pivot + count - index) % count
		position := max(index, flip)
		source := sha256.Sum256(binary.LittleEndian.AppendUint32(text, uint32(position/256)))
		if source[position%256/8]>>(position%8)%2 == 1 {
			index = flip
		}
	}
	return index
}

// The position of each number is compute_shuffled_index, in sizes around the blocks of 256 and beyond 2^16. That of one number
// needs neither the memory nor the time of the whole order.
func TestLobbyOrderIsComputeShuffledIndex(t *testing.T) {
	sizes := []uint32{255, 256, 257, 513, 70_001}
	for size := range uint32(40) {
		sizes = append(sizes, size)
	}
	for _, size := range sizes {
		seed := sha256.Sum256(binary.LittleEndian.AppendUint32(nil, size))
		order := entry.LobbyOrder(seed, size)
		require.Len(t, order, int(size))
		for number := uint64(0); number < uint64(size); number += 1 + uint64(size)/300 {
			position := shuffledIndex(number, uint64(size), seed)
			require.Equal(t, number, uint64(order[position]), "number %d of %d", number, size)
			require.Equal(t, position, uint64(entry.LobbyPosition(seed, size, uint32(number))), "number %d of %d", number, size)
		}
	}

	for _, size := range []uint32{1 << 31, 1<<31 + 1, math.MaxUint32} {
		seed := sha256.Sum256(binary.LittleEndian.AppendUint32(nil, size))
		for _, number := range []uint32{0, 1, 255, 1 << 30, size - 1} {
			position := shuffledIndex(uint64(number), uint64(size), seed)
			require.Equal(t, position, uint64(entry.LobbyPosition(seed, size, number)), "number %d of %d", number, size)
		}
	}
}

// The vectors are tests/mainnet/phase0/shuffling/core/shuffle/shuffle_<seed>_<count>/mapping.yaml of
// github.com/ethereum/consensus-spec-tests: element n is compute_shuffled_index(n).
func TestLobbyOrderOfEthereum(t *testing.T) {
	for text, mapping := range map[string][]uint32{
		"01b4f6bd5d6a06a7b74a8565ceb4f845afe0ae96a0ac05cf5e86066bf7b538ec": {2, 7, 8, 5, 4, 1, 6, 0, 9, 3},
		"0623ccb9b1619bd388284a438034d8cb6431964ba727d8b1c450303105735488": {
			14, 26, 30, 32, 21, 5, 19, 31, 0, 17, 11, 18, 7, 3, 4, 29, 6, 13, 16, 15, 2, 22, 25, 12, 23, 24, 27, 10, 8, 1, 28, 20, 9,
		},
	} {
		seed := env.Must(hex.DecodeString(text))(t)
		order := entry.LobbyOrder([32]byte(seed), uint32(len(mapping)))
		for number, position := range mapping {
			require.Equal(t, uint32(number), order[position])
			require.Equal(t, position, entry.LobbyPosition([32]byte(seed), uint32(len(mapping)), uint32(number)))
		}
	}
}

// checkedRoom returns a room with a lobby of six, in the order of the seed, and later arrivals.
func checkedRoom(events ...domain.RoomEvent) *domain.Room {
	for i := range events {
		if events[i].Seq == 0 {
			events[i].Seq = uint32(i) + 1
		}
	}
	return &domain.Room{VoucherID: 1, Joined: 9, Size: 6, Seed: [32]byte{7}, StartedAt: now, Events: events}
}

func admitted(numbers ...uint32) domain.RoomEvent {
	return domain.RoomEvent{Kind: domain.RoomAdmitted, Numbers: numbers}
}

func left(numbers ...uint32) domain.RoomEvent {
	return domain.RoomEvent{Kind: domain.RoomLeft, Numbers: numbers}
}

func TestCheckRoom(t *testing.T) {
	o := entry.LobbyOrder([32]byte{7}, 6)
	c := entry.CheckRoom(checkedRoom(left(o[5]), admitted(o[0], o[2]), left(o[0]), admitted(o[1], o[4], 6), admitted(o[3], 8)))
	require.Equal(t, entry.RoomCheck{Admitted: 7, Left: 2, Later: 2}, c, "the second and the fourth were absent at first")
	behind := domain.RoomEvent{Kind: domain.RoomBehind, Numbers: []uint32{7}}
	c = entry.CheckRoom(checkedRoom(admitted(o...), behind, admitted(8, 7)))
	require.Equal(t, entry.RoomCheck{Admitted: 8}, c, "a buyer that had a pass before waits behind the others")
	early := checkedRoom(admitted(0))
	early.StartedAt, early.Size = time.Time{}, 0
	gap := admitted(o[2])
	gap.Seq = 3
	for fault, room := range map[string]*domain.Room{
		"event 1: buyers are admitted before the start":    early,
		"event 1: buyers are not in the order of the line": checkedRoom(admitted(o[1], o[0])),
		"event 2: number 8 is admitted again":              checkedRoom(admitted(o[0], 8), admitted(8)),
		"event 1: number 9 does not exist":                 checkedRoom(admitted(9)),
		"event 2: number 7 has left before":                checkedRoom(left(7), admitted(7)),
		"event 2: buyers are not in the order of the line": checkedRoom(behind, admitted(7, 8)),
		"event 3: sequence number 2 is missing":            checkedRoom(admitted(o[0]), gap),
	} {
		require.Equal(t, []string{fault}, entry.CheckRoom(room).Faults)
	}
	require.Len(t, entry.CheckRoom(checkedRoom(left(7), left(7))).Faults, 1, "left twice")
	require.Len(t, entry.CheckRoom(checkedRoom(admitted(o[0], o[0]))).Faults, 1, "twice in one event")
}

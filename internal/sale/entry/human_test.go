package entry_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/sale/entry"
	"seckill/test/env"
)

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

func (u *used) GiveBack(_ context.Context, id string) error {
	delete(u.until, id)
	return u.err
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
	redisDown := domain.ErrUnavailable
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
		{name: "Redis is down", sale: running, solution: "good", redis: redisDown, want: domain.ErrUnavailable},
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
		t.Helper()
		_, err := s.Enter(t.Context(), 7, 1, solution)
		var demanded *domain.ChallengeRequiredError
		require.ErrorAs(t, err, &demanded)
		return demanded.Challenge
	}
	solved := func(challenge json.RawMessage) string {
		t.Helper()
		solution, err := env.SolveChallenge(challenge)
		require.NoError(t, err)
		return solution
	}

	first := demanded(a, "")
	solution := solved(first)
	_, err := b.Enter(t.Context(), 7, 1, solution)
	require.NoError(t, err)
	onB := demanded(b, "")
	require.NotEqual(t, first, onB)
	require.Equal(t, first, demanded(a, ""), "a has not seen the solution")

	onA := demanded(a, solution)
	require.NotEqual(t, first, onA)
	for _, challenge := range []json.RawMessage{onA, onB} {
		_, err = a.Enter(t.Context(), 7, 1, solved(challenge))
		require.NoError(t, err)
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
	solution, err := env.SolveChallenge(demanded.Challenge)
	require.NoError(t, err)
	_, err = s.Enter(t.Context(), 7, 1, solution)
	require.NoError(t, err)

	step = -10 * time.Minute
	for ; solutions.passed < 20*time.Minute; solutions.passed += 30 * time.Second {
		_, err = s.Enter(t.Context(), 7, 1, solution)
		require.ErrorAs(t, err, &demanded, "after %s", solutions.passed)
	}
}

// oneRoom is a RoomStore with a room in which every user has the first place.
type oneRoom struct {
	entry.RoomStore
	err error
}

func (r *oneRoom) JoinRoom(context.Context, int64, []domain.PlaceRequest) ([]uint32, error) {
	return []uint32{0}, r.err
}

func (r *oneRoom) Rooms(context.Context, map[int64]domain.RoomCursor) ([]domain.Room, time.Time, error) {
	return []domain.Room{{VoucherID: 1, Joined: 1, Stock: 1}}, now.Add(-time.Minute), nil
}

// A place in a room uses a solution up; a failed attempt to get one does not.
func TestRoomWithChallenge(t *testing.T) {
	store, human, solutions := &oneRoom{err: domain.ErrUnavailable}, &riddle{}, &used{until: map[string]time.Duration{}}
	s, sale := challenged(human, solutions, func() time.Time { return now })
	sale.Entry.Mode = domain.EntryRoom
	s.Rooms = entry.NewRooms(entry.RoomsConfig{
		Store: store, Sales: s.Sales, Changed: func(int64) {},
	})
	var demanded *domain.ChallengeRequiredError
	_, err := s.Enter(t.Context(), 7, 1, "")
	require.ErrorAs(t, err, &demanded)
	_, err = s.Enter(t.Context(), 7, 1, "good")
	require.ErrorIs(t, err, domain.ErrUnavailable)
	store.err = nil
	place, err := s.Enter(t.Context(), 7, 1, "good")
	require.NoError(t, err)
	require.Equal(t, entry.Lobby, place.State)
	_, err = s.Enter(t.Context(), 7, 1, "good")
	require.ErrorAs(t, err, &demanded)
}

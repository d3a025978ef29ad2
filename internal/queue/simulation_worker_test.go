package queue

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"time"

	"pgregory.net/rapid"

	"seckill/internal/admission"
	"seckill/internal/domain"
	"seckill/internal/lane"
	"seckill/test/sim"
)

// simWorker drives the real reader of a stream step by step. It can die at every call of the gate and the database.
type simWorker struct {
	*reader
	sim       *simulation
	committer *lane.Committer

	hand    []entry // read, and not handled yet
	claimed bool
	owed    [][]domain.StreamEntry // committed, and not settled because the worker was suspended
	settled [][]domain.StreamEntry

	fate fate
	stop context.CancelFunc
	dead bool
}

// fate is what happens to a worker while it handles a batch.
type fate struct {
	commits   int  // admissions that it commits before it dies
	settles   int  // entries that it settles before it dies
	heldUp    bool // suspended between commit and settlement
	noReply   bool // the gate settles, the reply is lost, and the worker repeats the call
	noStorage bool // the database is unavailable at first
	confused  bool // every commit fails with an error that blames the admissions
}

var unharmed = fate{commits: math.MaxInt, settles: math.MaxInt}

// errHarm is the error of a call that is interrupted by the worker's death or has lost its reply.
var errHarm = errors.Join(domain.ErrUnavailable, errors.New("simulated"))

func newSimWorker(s *simulation, name string) *simWorker {
	w := &simWorker{sim: s, fate: unharmed, stop: func() {}, committer: &lane.Committer{
		Orders: s.store, IDs: s.ids, PayTimeout: time.Hour, Now: func() time.Time { return noonOfSale },
	}}
	w.reader = &reader{stream: s.stream, log: slog.New(slog.DiscardHandler), w: New(Config{
		Redis: s.rdb, Streams: []string{s.stream}, Group: admission.Group, Consumer: name, Gate: w, Commit: w.commit,
		ReadSize: 4, BatchSize: 6, MaxTries: 2, Block: time.Millisecond,
		// All pending entries may be claimed: the simulation decides how long a worker is suspended.
		MinIdle: time.Nanosecond, ClaimEvery: time.Nanosecond,
	})}
	return w
}

// GoString formats the worker for rapid.
func (w *simWorker) GoString() string { return w.w.cfg.Consumer }

// withGroup creates the group if do fails because it is missing, and repeats do, as a reader would.
func (w *simWorker) withGroup(ctx context.Context, do func() error) error {
	err := do()
	if noGroup(err) {
		if err = w.createGroup(ctx); err == nil {
			err = do()
		}
	}
	return err
}

func (w *simWorker) take(claim bool) error {
	return w.withGroup(w.sim.ctx, func() (err error) {
		if w.claimed = claim; claim {
			w.hand, err = w.claim(w.sim.ctx)
		} else {
			w.hand, err = w.read(w.sim.ctx)
		}
		return err
	})
}

// handleHand handles the entries in hand with the real reader.
func (w *simWorker) handleHand(f fate) {
	var ctx context.Context
	ctx, w.stop = context.WithCancel(w.sim.ctx)
	defer w.stop()
	w.fate, w.dead = f, false
	hand := w.hand
	w.handle(ctx, hand, w.claimed, time.Now())
	w.hand = nil
}

func (w *simWorker) die() {
	w.sim.seen["worker died"]++
	w.dead = true
	w.stop()
}

// commit is the database. Poison fails the whole transaction.
func (w *simWorker) commit(ctx context.Context, as []domain.Admission) []error {
	harmed := slices.Repeat([]error{errHarm}, len(as))
	switch {
	case w.dead:
		return harmed
	case w.fate.noStorage:
		w.fate.noStorage = false
		return harmed
	case w.fate.confused || slices.ContainsFunc(as, w.sim.poisonous):
		if len(as) == 1 {
			panic("poison")
		}
		return slices.Repeat([]error{errors.New("poison")}, len(as))
	}
	n := min(w.fate.commits, len(as))
	w.fate.commits -= n
	errs := w.committer.Commit(ctx, as[:n])
	for i, err := range errs {
		if err == nil {
			w.sim.noteCommitted(as[i])
		}
	}
	if n < len(as) {
		w.die()
		return harmed
	}
	return errs
}

// Parse implements Settler.
func (w *simWorker) Parse(stream, entry string, fields map[string]any) (domain.StreamEntry, error) {
	return w.sim.back.Parse(stream, entry, fields)
}

// Settle implements Settler.
func (w *simWorker) Settle(ctx context.Context, done []domain.StreamEntry) error {
	switch {
	case w.dead:
		return errHarm
	case w.fate.heldUp:
		w.owed = append(w.owed, done)
		return nil
	}
	n := min(w.fate.settles, len(done))
	w.fate.settles -= n
	if n < len(done) {
		w.die()
	}
	if err := w.settleNow(ctx, done[:n]); err != nil {
		return err
	}
	return w.reply()
}

func (w *simWorker) settleNow(ctx context.Context, done []domain.StreamEntry) error {
	for _, p := range done {
		for i, end := range p.Ends {
			switch {
			case end.Again:
				w.sim.seen["retried"]++
			case end != domain.End{}:
				w.sim.noteEnd(w, p.Entry, p.Admissions[i])
			}
		}
	}
	w.settled = append(w.settled, done)
	return w.sim.back.Settle(context.WithoutCancel(ctx), done)
}

// MoveToDeadLetters implements Settler. The streams of a simulation have no unparsable entries.
func (w *simWorker) MoveToDeadLetters(_ context.Context, _, entry, reason string, _ int64) error {
	panic("entry " + entry + " cannot be parsed: " + reason)
}

// reply returns the worker's view of a successful call of the gate.
func (w *simWorker) reply() error {
	if w.dead {
		return errHarm
	}
	if w.fate.noReply {
		w.fate.noReply = false
		return errHarm
	}
	return nil
}

// inHand reports whether the worker has read an admission and not handled it yet. Its entry may be settled by now: an
// admission that is retried gets another one.
func (w *simWorker) inHand(a domain.Admission) bool {
	return slices.ContainsFunc(w.hand, func(e entry) bool {
		p, err := w.Parse(w.stream, e.Entry, e.fields)
		return err == nil && slices.ContainsFunc(p.Admissions, func(b domain.Admission) bool { return b.At.Equal(a.At) })
	})
}

// drawFate draws a fate. About half of them are unharmed.
func drawFate(t *rapid.T) fate {
	f := unharmed
	switch sim.Evenly(t, "fate", "", "", "", "", "", "", "held up", "no commit", "no settlement", "held up", "no reply", "no storage", "confused") {
	case "no commit":
		f.commits = sim.Evenly(t, "but", 0, 1, 2)
	case "no settlement":
		f.settles = sim.Evenly(t, "but", 0, 1, 2)
	case "held up":
		f.heldUp = true
	case "no reply":
		f.noReply = true
	case "no storage":
		f.noStorage = true
	case "confused":
		f.confused = true
	}
	return f
}

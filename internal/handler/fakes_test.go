package handler_test

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/domain"
	"seckill/internal/repo"
	"seckill/test/env"
)

type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) now() time.Time          { return time.UnixMilli(c.at.Load()).UTC() }
func (c *clock) advance(d time.Duration) { c.at.Add(d.Milliseconds()) }

// userLocks are in-memory locks of users. A test can take one or make all of them fail.
type userLocks struct {
	mu   sync.Mutex
	held map[int64]bool
	err  error
}

func newUserLocks() *userLocks { return &userLocks{held: map[int64]bool{}} }

func (l *userLocks) TryDo(ctx context.Context, userID int64, fn func(context.Context) error) error {
	if err := l.take(userID); err != nil {
		return err
	}
	defer l.release(userID)
	return fn(ctx)
}

func (l *userLocks) take(userID int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return l.err
	case l.held[userID]:
		return domain.ErrOrderInProgress
	}
	l.held[userID] = true
	return nil
}

func (l *userLocks) release(userID int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, userID)
}

func (l *userLocks) free() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held) == 0
}

func (l *userLocks) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// ids counts up from an id that a JavaScript number cannot represent.
type ids struct{ last atomic.Int64 }

func newIDs() *ids {
	i := &ids{}
	i.last.Store(3368803458027454464)
	return i
}

func (i *ids) NextN(_ context.Context, n int) ([]int64, error) {
	block := make([]int64, n)
	for k := range block {
		block[k] = i.last.Add(1)
	}
	return block, nil
}

func (i *ids) Skip(_ context.Context, taken int64) error { i.last.Store(taken + 1000); return nil }

type outbox struct {
	mu    sync.Mutex
	codes map[string]string
}

func (o *outbox) SendCode(_ context.Context, phone, code string, _ time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.codes[phone] = code
	return nil
}

func (o *outbox) code(phone string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.codes[phone]
}

func (o *outbox) all() map[string]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.codes)
}

type usedSolutions struct{ ids sync.Map }

func (u *usedSolutions) UseUp(_ context.Context, id string, _ time.Duration) (bool, error) {
	_, used := u.ids.LoadOrStore(id, true)
	return !used, nil
}

func (u *usedSolutions) GiveBack(_ context.Context, id string) error {
	u.ids.Delete(id)
	return nil
}

type logBuffer struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// of returns the lines at a level ("ERROR", "WARN").
func (l *logBuffer) of(level string) []map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []map[string]any
	for text := range strings.Lines(l.all.String()) {
		var line map[string]any
		if json.Unmarshal([]byte(text), &line) == nil && line["level"] == level {
			lines = append(lines, line)
		}
	}
	return lines
}

// faultyDB is the store, whose statements fail while a fault is set.
type faultyDB struct {
	*repo.Store
	faults *env.Faults
}

// fail makes every later statement call f first and return its error. A nil f ends the fault.
func (db *faultyDB) fail(f func() error) {
	if f == nil {
		db.faults.Before(nil)
		return
	}
	db.faults.Before(func(string) error { return f() })
}

func (db *faultyDB) failFrom(n int64) {
	var statements atomic.Int64
	db.fail(func() error {
		if statements.Add(1) >= n {
			return domain.ErrUnavailable
		}
		return nil
	})
}

// noPeers implements entry.Peers for a server that is alone.
type noPeers struct{}

func (noPeers) Exchange(_ context.Context, _ int64, report []byte, _ time.Duration) ([][]byte, error) {
	return [][]byte{report}, nil
}

package env

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/test/env/servers"
)

// InBackground runs f until the end of the test, or until stop is called, which waits for the end of f.
func InBackground(tb testing.TB, f func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })

	stop = func() {
		cancel()
		running.Wait()
	}
	tb.Cleanup(stop)
	return stop
}

// FreeAddr returns an address that is reserved until cleanup: a server can be stopped and started again on it, and nothing
// listens there otherwise.
func FreeAddr(tb testing.TB) string {
	tb.Helper()
	addr, release, err := servers.ReserveAddr(tb.Context())
	need(tb, err)
	tb.Cleanup(func() { require.NoError(tb, release()) })
	return addr
}

// Buffer is a bytes.Buffer for concurrent use.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Query returns the columns and the rows of a query. Texts, which MariaDB returns as bytes, are strings.
func Query(tb testing.TB, db *sql.DB, query string, args ...any) (columns []string, all [][]any) {
	tb.Helper()
	rows, err := db.QueryContext(context.WithoutCancel(tb.Context()), query, args...)
	require.NoError(tb, err, query)
	defer func() { require.NoError(tb, rows.Close()) }()

	columns = Must(rows.Columns())(tb)
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		require.NoError(tb, rows.Scan(into...))

		for i, v := range values {
			if text, ok := v.([]byte); ok {
				values[i] = string(text)
			}
		}
		all = append(all, values)
	}

	require.NoError(tb, rows.Err())
	return columns, all
}

// Event is a server-sent event.
type Event struct {
	Kind, ID string
	Data     []byte
}

// EventStream reads server-sent events.
type EventStream struct {
	Lines *bufio.Scanner
	Retry string // the last pause that the server gave, in milliseconds
}

// NewEventStream returns the events of a body.
func NewEventStream(body io.Reader) *EventStream {
	s := &EventStream{Lines: bufio.NewScanner(body)}
	s.Lines.Buffer(nil, 1<<20)
	return s
}

// Next returns the next event, or io.EOF at the end of the stream.
func (s *EventStream) Next() (Event, error) {
	var e Event
	for s.Lines.Scan() {
		name, value, _ := strings.Cut(s.Lines.Text(), ": ")
		switch name {
		case "event":
			e.Kind = value
		case "id":
			e.ID = value
		case "retry":
			s.Retry = value
		case "data":
			e.Data = []byte(value)
		case "":
			if e.Kind != "" {
				return e, nil
			}
		}
	}

	return Event{}, cmp.Or(s.Lines.Err(), io.EOF)
}

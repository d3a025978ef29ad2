package handler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/auth"
	"seckill/internal/ops/salestats"
)

const (
	// heartbeat is the interval of comment lines on an idle stream. Proxies close connections that are silent for a
	// minute.
	heartbeat = 15 * time.Second
	// writeTimeout bounds one write. A client that does not read is disconnected and resumes with Last-Event-ID.
	writeTimeout = 5 * time.Second
	// A server that stops ends all its streams at once. It sends each client a random pause before the next connection,
	// so that they do not all reach the other servers in one moment.
	minReconnect    = 500 * time.Millisecond
	spreadReconnect = 4 * time.Second
)

// comment is a comment line, which clients ignore.
const comment = ":\n\n"

// reauthenticate is the last event of a stream whose access token has expired. The client reconnects with a new token.
var reauthenticate = []byte("event: reauth\ndata: {}\n\n")

// stream is a stream of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). It hijacks
// its connection, because net/http keeps two goroutines and ten kilobytes of buffers per request, and thousands of
// streams are open at once. It ends with the access token of its request.
type stream struct {
	sub  *salestats.Subscription
	conn net.Conn
	// Closed when the connection is.
	gone chan struct{}
	// The ticker of the heartbeat.
	ticker  *time.Ticker
	unwatch func()
}

// serveStream answers a request with a stream about an order or a sale. prepare reads what the first event needs and
// returns the function that writes the events until the stream is over, or nil if it has answered the request itself.
func serveStream(
	c *gin.Context, users *auth.Service, subscribers *salestats.Subscribers, id int64, prepare func(*stream) (func(), error),
) error {
	// Before the first read, so that no change after it is missed.
	sub, err := subscribers.Subscribe(caller(c).UserID, id)
	if err != nil {
		return err
	}

	streaming := false
	defer func() {
		if !streaming {
			subscribers.Unsubscribe(sub)
		}
	}()

	s := &stream{sub: sub}
	run, err := prepare(s)
	if err != nil || run == nil {
		return err
	}
	if err := s.open(c, users); err != nil {
		return err
	}

	streaming = true
	go func() {
		defer subscribers.Unsubscribe(sub)
		defer s.start()()
		run()
	}()
	return nil
}

// open hijacks the connection and writes the header of the answer. The answer ends when the connection is closed, that to
// HEAD at once.
func (s *stream) open(c *gin.Context, users *auth.Service) error {
	header := c.Writer.Header().Clone()
	conn, _, err := c.Writer.Hijack()
	if err != nil {
		return fmt.Errorf("take over the connection of a stream: %w", err)
	}

	s.conn = conn
	header.Set("Content-Type", "text/event-stream")
	header.Set("Connection", "close")

	// Otherwise nginx buffers the events.
	header.Set("X-Accel-Buffering", "no")

	b := bytes.NewBufferString("HTTP/1.1 200 OK\r\n")

	// Cannot fail on a buffer.
	_ = header.Write(b)
	b.WriteString("\r\n")

	if !isHead(c) {
		// So that the client can tell an idle stream from one that a proxy holds back.
		b.WriteString(comment)
	}

	_ = s.conn.SetReadDeadline(time.Time{})

	// The first event detects a closed connection.
	s.write(b.Bytes())

	if isHead(c) {
		_ = s.conn.Close()
	}

	// The token has ended since the request was authorized.
	if s.unwatch, err = users.Watch(bearer(c), s.end); err != nil {
		s.unwatch = func() {}
		_ = s.conn.Close()
	}

	return nil
}

// end closes the connection because the token has expired or its session was revoked. Afterwards every write fails, so
// no event follows the revocation.
func (s *stream) end(expired bool) {
	if expired {
		s.write(reauthenticate)
	}
	_ = s.conn.Close()
}

// start starts the heartbeat and the goroutine that detects a disconnected client. The returned function stops both and
// closes the connection.
func (s *stream) start() func() {
	s.gone = make(chan struct{})
	s.ticker = time.NewTicker(heartbeat)

	go func() {
		// The client sends nothing more, so Read returns at the end of the connection.
		_, _ = s.conn.Read(make([]byte, 1))
		close(s.gone)
	}()

	return func() {
		s.unwatch()
		s.ticker.Stop()
		_ = s.conn.Close()
	}
}

// wait returns true on a change or at poll, and false when the stream is over. It writes heartbeats meanwhile.
func (s *stream) wait(poll <-chan time.Time) bool {
	for {
		select {
		case <-s.sub.Changed:
			return true
		case <-poll:
			return true
		case <-s.ticker.C:
			if !s.write([]byte(comment)) {
				return false
			}
		case <-s.gone:
			return false
		case <-s.sub.Done:
			s.write(fmt.Appendf(nil, "retry: %d\n\n", (minReconnect + rand.N(spreadReconnect)).Milliseconds()))
			return false
		}
	}
}

func (s *stream) write(b []byte) bool {
	_ = s.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := s.conn.Write(b)
	return err == nil
}

func (s *stream) send(event, id string, data []byte) bool {
	b := append(make([]byte, 0, len(data)+64), "event: "+event+"\n"...)
	if id != "" {
		b = append(b, "id: "+id+"\n"...)
	}

	// A single line: strings are escaped.
	b = append(append(b, "data: "...), data...)
	return s.write(append(b, "\n\n"...))
}

var errReadPanicked = errors.New("a read for a stream panicked")

// readDetached calls read for a stream, within answerTimeout, and turns a panic into an error. It runs read on another
// goroutine: a query needs a deep stack, which the goroutine of the stream would keep for its whole life.
func readDetached[T any](read func(context.Context) (T, error)) (value T, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			// The recovery middleware covers the goroutine of the request only.
			if p := recover(); p != nil {
				err = fmt.Errorf("%w: %v\n%s", errReadPanicked, p, debug.Stack())
			}
		}()

		ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
		defer cancel()
		value, err = read(ctx)
	}()

	<-done
	return value, err
}

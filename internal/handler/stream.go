package handler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/salestats"
)

const (
	// heartbeat is how often a stream says that it lives while nothing happens. Proxies cut what is silent for a minute.
	heartbeat = 15 * time.Second
	// eventWrite bounds one write: who does not read is dropped, and comes back with Last-Event-ID.
	eventWrite = 5 * time.Second
)

// stream is a stream of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). It has its
// connection to itself: net/http keeps two goroutines and ten kilobytes of buffers for a request, and thousands of people
// watch at once.
type stream struct {
	conn net.Conn
	gone chan struct{} // closed when the client has hung up
	beat *time.Ticker
}

// openStream takes the connection over and begins the answer. It ends with the connection.
func openStream(c *gin.Context) (*stream, error) {
	header := c.Writer.Header().Clone()
	conn, _, err := c.Writer.Hijack()
	if err != nil {
		return nil, fmt.Errorf("take over the connection of a stream: %w", err)
	}
	s := &stream{conn: conn}
	header.Set("Content-Type", "text/event-stream")
	header.Set("Connection", "close")
	header.Set("X-Accel-Buffering", "no") // nginx would keep the events
	b := bytes.NewBufferString("HTTP/1.1 200 OK\r\n")
	_ = header.Write(b) // a buffer takes everything
	b.WriteString("\r\n")
	_ = s.conn.SetReadDeadline(time.Time{})
	s.write(b.Bytes()) // who is gone is noticed by the first event
	return s, nil
}

// attend begins to look after the connection, until the returned function is called.
func (s *stream) attend() (end func()) {
	s.gone, s.beat = make(chan struct{}), time.NewTicker(heartbeat)
	go func() {
		_, _ = s.conn.Read(make([]byte, 1)) // nothing should come any more but the end
		close(s.gone)
	}()
	return func() {
		s.beat.Stop()
		_ = s.conn.Close()
	}
}

// sleep ends when it is time to look. It returns false if the stream is over.
func (s *stream) sleep(watch *salestats.Watch, look <-chan time.Time) bool {
	for {
		select {
		case <-watch.Changed:
			return true
		case <-look:
			return true
		case <-s.beat.C:
			if !s.write([]byte(":\n\n")) {
				return false
			}
		case <-s.gone:
			return false
		case <-watch.Done:
			return false
		}
	}
}

// write sends at once.
func (s *stream) write(b []byte) bool {
	_ = s.conn.SetWriteDeadline(time.Now().Add(eventWrite))
	_, err := s.conn.Write(b)
	return err == nil
}

// errLook says that reading what a stream tells went wrong in a way that nobody foresaw.
var errLook = errors.New("a look panicked")

// aside reads something for a stream, within the time that any request has. It does so on another goroutine: a query needs
// a deep stack, and that of the stream would keep it for as long as it lasts.
func aside[T any](look func(context.Context) (T, error)) (seen T, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil { // the middleware that answers panics is not above us
				err = fmt.Errorf("%w: %v\n%s", errLook, p, debug.Stack())
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
		defer cancel()
		seen, err = look(ctx)
	}()
	<-done
	return seen, err
}

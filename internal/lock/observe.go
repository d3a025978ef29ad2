package lock

import (
	"errors"
	"time"
)

// An EventKind names what happened to a lock. The values are short and few, so that they can label a metric.
type EventKind string

// Every Lock and TryLock with valid options ends in exactly one of acquired, not_acquired, failed and uncertain. Every
// hold that is released or lost ends in released or lost, or, for each release that could not be confirmed, uncertain.
const (
	EventAcquired    EventKind = "acquired"     // a hold began
	EventNotAcquired EventKind = "not_acquired" // another holder has the lock, or the wait was cut short
	EventFailed      EventKind = "failed"       // Redis, or too many nodes, failed; nothing was left behind
	EventUncertain   EventKind = "uncertain"    // see ErrUncertain; Held is 0 if an acquire was uncertain
	EventRenewFailed EventKind = "renew_failed" // one renewal failed; it will be retried
	EventReleased    EventKind = "released"     // a hold was released
	EventLost        EventKind = "lost"         // a hold ended before its release
)

// An Event is one report to an observer.
type Event struct {
	Kind EventKind
	Lock string        // the kind of lock: mutex, fair, redlock and so on
	Name string        // the lock's name; unbounded, so unfit as a metric's label
	Wait time.Duration // since Lock or TryLock was called, on events of acquiring
	Held time.Duration // since the hold began, on events of a hold
	Err  error         // the reason, on every kind except acquired and released
}

// acquireEvent returns the event of a Lock or TryLock that ended in err.
func acquireEvent(lock, name string, began time.Time, err error) Event {
	e := Event{Kind: EventFailed, Lock: lock, Name: name, Wait: time.Since(began), Err: err}
	switch {
	case err == nil:
		e.Kind = EventAcquired
	case errors.Is(err, ErrUncertain):
		e.Kind = EventUncertain
	case errors.Is(err, ErrNotAcquired):
		e.Kind = EventNotAcquired
	}
	return e
}

package salestats

import (
	"slices"
	"sync"
	"time"

	"seckill/internal/domain"
)

const (
	// maxSubscriptions bounds the subscriptions of this process. An idle stream costs about 23 KiB.
	maxSubscriptions = 20_000
	// maxSubscriptionsOfUser bounds the subscriptions of one user: four tabs with two each, and connections not yet
	// detected as dead.
	maxSubscriptionsOfUser = 8
	// subscribeRetry is the RetryAfter of a subscription beyond maxSubscriptionsOfUser.
	subscribeRetry = 10 * time.Second
)

// Subscribers is a registry of subscriptions to orders, or to sales, on this process. A notification carries no data:
// the subscriber reads the current state. It is safe for concurrent use.
type Subscribers struct {
	mu     sync.Mutex
	byID   map[int64][]*Subscription
	byUser map[int64]int
	all    int
	closed bool
	done   chan struct{}
	// Has a count of all.
	open sync.WaitGroup
}

// Subscription is a subscription to one order or sale.
type Subscription struct {
	// Changed receives a value when the order or sale may have changed. Changes before the value is received are
	// coalesced.
	Changed <-chan struct{}
	// Done is closed when the process stops.
	Done <-chan struct{}

	changed    chan struct{}
	userID, id int64
}

// NewSubscribers returns an empty registry.
func NewSubscribers() *Subscribers {
	return &Subscribers{
		byID:   map[int64][]*Subscription{},
		byUser: map[int64]int{},
		done:   make(chan struct{}),
	}
}

// Subscribe subscribes a user to an order or sale. The caller must call Unsubscribe afterwards.
// Errors: ErrOverloaded (too many subscriptions, or the process stops), *RateLimitedError (too many of this user).
func (s *Subscribers) Subscribe(userID, id int64) (*Subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	switch {
	case s.closed || s.all >= maxSubscriptions:
		return nil, domain.ErrOverloaded
	case s.byUser[userID] >= maxSubscriptionsOfUser:
		return nil, &domain.RateLimitedError{RetryAfter: subscribeRetry}
	}

	changed := make(chan struct{}, 1)
	sub := &Subscription{
		Changed: changed,
		Done:    s.done,
		changed: changed,
		userID:  userID,
		id:      id,
	}

	s.byID[id] = append(s.byID[id], sub)
	s.byUser[userID]++
	s.all++
	s.open.Add(1)

	return sub, nil
}

// Unsubscribe ends a subscription. It does nothing if that has ended already.
func (s *Subscribers) Unsubscribe(sub *Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()

	same := s.byID[sub.id]
	i := slices.Index(same, sub)
	if i < 0 {
		return
	}

	same = slices.Delete(same, i, i+1)
	if len(same) > 0 {
		s.byID[sub.id] = same
	} else {
		delete(s.byID, sub.id)
	}

	s.byUser[sub.userID]--
	if s.byUser[sub.userID] == 0 {
		delete(s.byUser, sub.userID)
	}

	s.all--
	s.open.Done()
}

// Notify notifies the subscribers of an order or sale. It does not block.
func (s *Subscribers) Notify(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.byID[id] {
		sub.notify()
	}
}

// NotifyAll notifies all subscribers. It does not block.
func (s *Subscribers) NotifyAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, same := range s.byID {
		for _, sub := range same {
			sub.notify()
		}
	}
}

func (s *Subscription) notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Count returns the number of subscriptions.
func (s *Subscribers) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// Close closes Done of all subscriptions, refuses further ones, and waits until the subscribers have unsubscribed.
func (s *Subscribers) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	s.mu.Unlock()
	s.open.Wait()
}

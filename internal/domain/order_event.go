package domain

import (
	"context"
	"time"
)

// OrderEvent is an entry of the outbox: a message that an order was placed or moved, for SECKILL_EVENTS_URL. It is
// written in the transaction of the placement or move, and delivered at least once. An event is delivered after the
// earlier ones of its order, unless these were given up or an admin repeats them.
type OrderEvent struct {
	ID        int64     `json:"id,string"`
	Type      EventType `json:"-"`
	CreatedAt time.Time `json:"-"`
	// As the placement or move left it.
	Order  Order       `json:"-" gorm:"-"`
	Status EventStatus `json:"status"`
	// Deliveries begun since CreatedAt or RepeatedAt.
	Tries int `json:"tries"`
	// Nil unless the event is pending.
	NextTryAt *time.Time `json:"next_try_at,omitempty"`
	// When an admin last repeated it; nil: never.
	RepeatedAt *time.Time `json:"-"`
	// When the last delivery ended; nil: none has.
	AnsweredAt *time.Time `json:"answered_at,omitempty"`
	// HTTP status of the last answer; 0: there was none.
	AnswerStatus int `json:"answer_status,omitempty"`
	// The beginning of the last answer, or why there was none.
	Answer string `json:"answer,omitempty"`
}

// EventType is the type of an event. The API prefixes it with "order.".
type EventType string

// MarshalText implements encoding.TextMarshaler, by the name in the API.
func (t EventType) MarshalText() ([]byte, error) { return []byte("order." + t), nil }

// EventCreated is the event of an order that was placed. Move.Event returns the others.
const EventCreated EventType = "created"

// Event returns the type of the move's event.
func (m Move) Event() EventType {
	switch m {
	case MoveExpire:
		return "expired"
	case MoveUndoRedeem:
		return "unredeemed"
	}
	return EventType(m.To.String())
}

// EventStatus is the state of an event.
type EventStatus int8

// The statuses of events, with their numbers in the database.
const (
	EventPending   EventStatus = 1 // to be delivered, or delivered with an unknown result
	EventDelivered EventStatus = 2
	EventFailed    EventStatus = 3 // given up
)

var eventStatusWords = words[EventStatus]{
	EventPending:   "pending",
	EventDelivered: "delivered",
	EventFailed:    "failed",
}

func (s EventStatus) String() string { return eventStatusWords.of(s) }

// MarshalText implements encoding.TextMarshaler.
func (s EventStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ParseEventStatus is the inverse of String. It returns false for an unknown word.
func ParseEventStatus(word string) (EventStatus, bool) { return eventStatusWords.parse(word) }

// After returns the order as the event of type t left it: later moves are undone.
func (o Order) After(t EventType) Order {
	o.Status = OrderPendingPayment
	for _, m := range Moves() {
		if m.Event() == t {
			o.Status = m.To
		}
	}

	if o.Status == OrderPendingPayment || o.Status == OrderCancelled {
		o.PaidAt = nil
	}
	if o.Status != OrderRedeemed {
		o.RedeemedAt = nil
	}
	if o.Status != OrderCancelled {
		o.CancelledAt = nil
	}
	if o.Status != OrderRefunding && o.Status != OrderRefunded {
		o.Disputed = false
	}
	if o.Status != OrderRefunded {
		o.RefundedAt = nil
	}

	return o
}

// EventResult is the result of one delivery of an event.
type EventResult struct {
	// As ClaimEvents returned it.
	Event     OrderEvent
	Delivered bool
	// After a failure, the time until the next try; 0: give up.
	Retry time.Duration
	// The status of the answer; 0: there was none.
	Status int
	Answer string // see OrderEvent
}

// EventFilter selects events. A zero field matches every event.
type EventFilter struct {
	Status  EventStatus
	OrderID int64
	Page    Page
}

// EventStore is the outbox. Each method is one transaction. Error: ErrUnavailable.
type EventStore interface {
	// ClaimEvents returns at most limit events that are due, each the first pending one of its order, and leases them to
	// the caller: until the lease ends or FinishEvents stores their results, they are not returned again.
	ClaimEvents(ctx context.Context, limit int, lease time.Duration) ([]OrderEvent, error)
	// FinishEvents stores the results of deliveries. A success counts even after the lease; a failure does not.
	FinishEvents(ctx context.Context, results []EventResult) error
	// OrderEvents returns the matching events, newest first.
	OrderEvents(ctx context.Context, f EventFilter) ([]OrderEvent, error)
	// RepeatEvent makes an event due again, whatever its status, as if it were new. Error: ErrNotFound.
	RepeatEvent(ctx context.Context, claim *Claim, id int64) error
}

// EventLife is how long events are stored that are delivered or given up.
const EventLife = 30 * 24 * time.Hour

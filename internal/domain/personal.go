package domain

import (
	"context"
	"time"
)

// SessionRecord is what the export of a user's data says about a session.
type SessionRecord struct {
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt time.Time  `json:"expires_at"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`

	// SecondFactor means that the session was opened with one.
	SecondFactor bool `json:"second_factor"`
}

// LoginCodeRecord is a request for a login code. Anybody can make one for any phone number.
type LoginCodeRecord struct {
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// FactorRecord is a second factor of a user, without its secret.
type FactorRecord struct {
	EnrolledAt time.Time `json:"enrolled_at"`
}

// EventRecord is an event of an order, and its delivery to the merchant's system.
type EventRecord struct {
	OrderID    int64       `json:"-"`
	Type       EventType   `json:"type"`
	CreatedAt  time.Time   `json:"created_at"`
	Status     EventStatus `json:"status"`
	AnsweredAt *time.Time  `json:"answered_at,omitempty"`
}

// KeyRecord is an Idempotency-Key of a user.
type KeyRecord struct {
	Key       string    `json:"key" gorm:"column:idem_key"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// PlaceRecord is a user's place in a waiting room.
type PlaceRecord struct {
	VoucherID int64     `json:"voucher_id,string"`
	Number    uint32    `json:"number"`
	JoinedAt  time.Time `json:"joined_at"`
}

// PersonalStore reads the data of one user for the export, in a fixed order. The limits of logins, keys and sales bound it to a
// few thousand records of a kind. Error: ErrUnavailable.
type PersonalStore interface {
	SessionsOf(ctx context.Context, userID int64) ([]SessionRecord, error)
	// LoginCodesOf returns the requests for codes of a phone number.
	LoginCodesOf(ctx context.Context, phone string) ([]LoginCodeRecord, error)
	// SecondFactorsOf returns none or one.
	SecondFactorsOf(ctx context.Context, userID int64) ([]FactorRecord, error)
	// KeysOf returns the keys that are not stored with orders.
	KeysOf(ctx context.Context, userID int64) ([]KeyRecord, error)
	// PlacesOf returns the places in rooms. Those of a sale are deleted a week after its end.
	PlacesOf(ctx context.Context, userID int64) ([]PlaceRecord, error)
	// PaymentsOf returns all payments of the orders, oldest first. It does not check the owner.
	PaymentsOf(ctx context.Context, orderIDs []int64) (map[int64][]Payment, error)
	// EventsOf returns all events of the orders, oldest first. It does not check the owner.
	EventsOf(ctx context.Context, orderIDs []int64) (map[int64][]EventRecord, error)
}

package domain

import (
	"context"
	"time"
)

// SessionRecord is what the export of a user's data says about a session.
type SessionRecord struct {
	// The cursor of the next page; it is not exported.
	ID        string     `json:"-"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt time.Time  `json:"expires_at"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`

	// SecondFactor means that the session was opened with one.
	SecondFactor bool `json:"second_factor"`
}

// LoginCodeRecord is a request for a login code. Anybody can make one for any phone number.
type LoginCodeRecord struct {
	// LoginID is the cursor of the next page. It is not exported.
	LoginID   string    `json:"-"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
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

// PersonalStore reads the data of one user for the export. Its methods return at most limit records, in a fixed order,
// and the error ErrUnavailable.
type PersonalStore interface {
	// SessionsOf returns the sessions whose ids follow after.
	SessionsOf(ctx context.Context, userID int64, after string, limit int) ([]SessionRecord, error)
	// LoginCodesOf returns the requests for codes of a phone number whose ids follow after.
	LoginCodesOf(ctx context.Context, phone, after string, limit int) ([]LoginCodeRecord, error)
	// SecondFactorsOf returns when the user's second factors were enrolled: none or one.
	SecondFactorsOf(ctx context.Context, userID int64) ([]time.Time, error)
	// KeysOf returns the keys that follow after.
	KeysOf(ctx context.Context, userID int64, after string, limit int) ([]KeyRecord, error)
	// PlacesOf returns the places in rooms of vouchers whose ids follow after. The places of a sale are deleted a week
	// after its end.
	PlacesOf(ctx context.Context, userID, after int64, limit int) ([]PlaceRecord, error)
	// PaymentsOf returns all payments of the orders, oldest first. It does not check the owner.
	PaymentsOf(ctx context.Context, orderIDs []int64) (map[int64][]Payment, error)
	// EventsOf returns all events of the orders, oldest first. It does not check the owner.
	EventsOf(ctx context.Context, orderIDs []int64) (map[int64][]EventRecord, error)
}

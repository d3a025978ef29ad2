package domain

import (
	"context"
	"crypto/sha256"
	"time"
)

// UnreadNotice is what a provider reported about a payment and the server could not read or match. Money may have moved,
// so an operator has to look at it.
type UnreadNotice struct {
	ID       int64  `json:"id,string"`
	Provider string `json:"provider"`
	// As far as it could be read, with Body.
	PaymentNotice
	// Why it could not be processed.
	Reason string `json:"reason"`
	// How often it arrived.
	Times      int       `json:"times"`
	ReceivedAt time.Time `json:"received_at"` // at first
	LastAt     time.Time `json:"last_at"`
	// When an operator closed it; nil: open.
	ClosedAt *time.Time `json:"closed_at,omitempty"`
}

// Content returns a hash that identifies a notice. Answers about one payment are one, because a provider may write another
// time into each.
func (n UnreadNotice) Content() [sha256.Size]byte {
	if n.Source == SourceQuery {
		return sha256.Sum256([]byte("query " + n.Ref))
	}
	return sha256.Sum256(n.Body)
}

// NoticeClosing closes an unread notice after an operator has settled what it is about.
type NoticeClosing struct {
	ID     int64     `json:"-"`
	Reason string    `json:"reason"`
	By     Actor     `json:"-"`
	At     time.Time `json:"-"`
	// The claim of the request; nil if it has no key.
	Claim *Claim `json:"-"`
}

// NoticeFilter selects unread notices.
type NoticeFilter struct {
	// Only those that are not closed.
	Open bool
	Page Page
}

// NoticeStore is the list of unread notices. Error: ErrUnavailable.
type NoticeStore interface {
	// UnreadNotices returns the matching notices, newest first.
	UnreadNotices(ctx context.Context, f NoticeFilter) ([]UnreadNotice, error)
	// CloseNotice closes a notice. Errors: ErrNotFound, ErrInvalidState (it is closed).
	CloseNotice(ctx context.Context, c NoticeClosing) error
}

// ClosedNoticeLife is how long a notice is stored after it was closed.
const ClosedNoticeLife = 30 * 24 * time.Hour

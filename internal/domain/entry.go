package domain

import (
	"fmt"
	"strings"
	"time"
)

// EntryMode is the way in which buyers are admitted to a sale.
type EntryMode int8

// The entry modes, with their numbers in the database.
const (
	EntryOpen EntryMode = 0 // every purchase is admitted
	EntryPass EntryMode = 1 // a purchase needs a pass, which is available from the start of the sale
	EntryRoom EntryMode = 2 // a purchase needs a pass, which the waiting room gives to one buyer after another
)

var entryModeWords = words[EntryMode]{
	EntryOpen: "open",
	EntryPass: "pass",
	EntryRoom: "room",
}

func (m EntryMode) String() string { return entryModeWords.of(m) }

// Entry is how buyers are admitted to a sale.
type Entry struct {
	Mode EntryMode `gorm:"column:entry_mode"`
	// Whether a buyer must prove to be human before entering.
	Challenge bool `gorm:"column:entry_challenge"`
	// How long a pass is valid.
	PassTTL time.Duration `gorm:"column:pass_ttl;not null;serializer:optional"`
	// Passes of earlier epochs are void.
	Epoch uint32 `gorm:"column:entry_epoch"`

	// The settings of the waiting room follow.

	// From when buyers may wait; zero: defaultLobby before the start.
	OpensAt time.Time `gorm:"column:entry_opens_at;serializer:optional"`
	// The most buyers admitted per second.
	Rate int `gorm:"column:entry_rate"`
	// Whether no buyer is admitted.
	Paused bool `gorm:"column:entry_paused"`
	// Shown to waiting buyers.
	Message string `gorm:"column:entry_message"`
}

// The defaults of an entry.
const (
	defaultPassTTL     = 10 * time.Second
	defaultRoomPassTTL = 120 * time.Second // time to read the page and decide
	defaultRate        = 100
	defaultLobby       = 10 * time.Minute
)

// DefaultEntry is the entry of a sale whose input names none.
var DefaultEntry = EntryOpen.defaults()

func (m EntryMode) defaults() Entry {
	e := Entry{
		Mode:    m,
		PassTTL: defaultPassTTL,
		Rate:    defaultRate,
	}
	if m == EntryRoom {
		e.PassTTL = defaultRoomPassTTL
	}
	return e
}

// Limits of the settings of an entry.
const (
	maxPassTTL = 3600 // seconds
	maxRate    = 10_000
	maxMessage = 255
)

// Opens returns from when buyers of a sale that begins at begin may wait.
func (e Entry) Opens(begin time.Time) time.Time {
	if e.OpensAt.IsZero() {
		return begin.Add(-defaultLobby)
	}
	return e.OpensAt
}

// String describes the entry for the audit log.
func (e Entry) String() string {
	parts := []string{e.Mode.String()}
	if e.Mode != EntryOpen {
		parts = append(parts, "passes for "+e.PassTTL.String())
	}
	if e.Challenge {
		parts = append(parts, "with challenge")
	}

	if e.Mode == EntryRoom {
		parts = append(parts, fmt.Sprintf("%d/s", e.Rate))
		if !e.OpensAt.IsZero() {
			parts = append(parts, "opens "+e.OpensAt.Format(time.RFC3339))
		}
	}

	return strings.Join(parts, ", ")
}

// Changes lists what differs between two entries by RoomChange, for the audit log.
func (e Entry) Changes(after Entry) string {
	var all changes
	add := all.add
	add("entry_epoch", e.Epoch, after.Epoch)
	add("paused", e.Paused, after.Paused)
	add("rate", e.Rate, after.Rate)
	add("message", quoted(e.Message), quoted(after.Message))
	return strings.Join(all, "; ")
}

// EntryInput is the entry that an admin sets. A nil field keeps its value while the mode stays. Another mode, or that of a
// new sale, begins with its defaults.
type EntryInput struct {
	// A word of the API.
	Mode string `json:"mode"`
	// "on" or "off".
	Challenge *string `json:"challenge"`
	// Only with mode room; defaultLobby before the start selects the default, which follows the start.
	OpensAt *Time `json:"opens_at"`
	// Buyers per second; only with mode room.
	Rate *int `json:"rate"`
	// In seconds; not with mode open.
	PassTTL *int `json:"pass_ttl"`
}

// apply validates the input and sets it on e. A pause and the message stay. The epoch changes with the mode, unless the
// mode was open and there are no passes. The caller, which knows the start, compares opens_at with it.
func (in *EntryInput) apply(e *Entry, bad *InvalidError) {
	mode, ok := entryModeWords.parse(in.Mode)
	if !ok {
		bad.Add("entry.mode", "must be open, pass or room")
		return
	}

	next := *e
	if mode != e.Mode {
		next = mode.defaults()
		next.Epoch = e.Epoch
		next.Paused = e.Paused
		next.Message = e.Message

		if e.Mode != EntryOpen {
			// A pass of mode pass does not lead past the room.
			next.Epoch++
		}
	}

	if in.Challenge != nil {
		next.Challenge = *in.Challenge == "on"
		bad.AddIf(next.Challenge && mode == EntryOpen, "entry.challenge", "is not allowed with mode open")
		bad.AddIf(!next.Challenge && *in.Challenge != "off", "entry.challenge", "must be off or on")
	}

	if in.PassTTL != nil {
		next.PassTTL = time.Duration(*in.PassTTL) * time.Second
		bad.AddIf(mode == EntryOpen, "entry.pass_ttl", "is not allowed with mode open")
		bad.AddIf(*in.PassTTL < 1 || *in.PassTTL > maxPassTTL, "entry.pass_ttl", "must be between 1 and %d seconds", maxPassTTL)
	}

	bad.AddIf(in.OpensAt != nil && mode != EntryRoom, "entry.opens_at", "is allowed only with mode room")
	bad.AddIf(in.Rate != nil && mode != EntryRoom, "entry.rate", "is allowed only with mode room")

	setRate(&next, in.Rate, "entry.rate", bad)
	setTime(&next.OpensAt, in.OpensAt, "entry.opens_at", bad)
	*e = next
}

func setRate(e *Entry, rate *int, field string, bad *InvalidError) {
	if rate == nil {
		return
	}
	e.Rate = *rate
	bad.AddIf(e.Rate < 1 || e.Rate > maxRate, field, "must be between 1 and %d buyers per second", maxRate)
}

// RoomChange changes the waiting room of a sale while it is in use. Nil fields stay unchanged.
type RoomChange struct {
	// Void all passes of the sale; also in mode pass.
	Revoke  bool    `json:"revoke"`
	Paused  *bool   `json:"paused"`
	Rate    *int    `json:"rate"`
	Message *string `json:"message"`
}

// Apply validates the change and applies it to the entry of a sale. Errors: *InvalidError, ErrInvalidState (the mode
// has no room, or no passes that could be revoked).
func (ch RoomChange) Apply(e *Entry) error {
	var bad InvalidError
	room := ch.Paused != nil || ch.Rate != nil || ch.Message != nil
	next := *e

	bad.AddIf(!ch.Revoke && !room, "revoke", "must be true unless paused, rate or message is given")
	if ch.Revoke {
		next.Epoch++
	}
	if ch.Paused != nil {
		next.Paused = *ch.Paused
	}

	setRate(&next, ch.Rate, "rate", &bad)
	SetText(&next.Message, ch.Message, "message", 0, maxMessage, &bad)

	if err := bad.Err(); err != nil {
		return err
	}
	if e.Mode == EntryOpen || room && e.Mode != EntryRoom {
		return ErrInvalidState
	}

	*e = next
	return nil
}

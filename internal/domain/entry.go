package domain

import (
	"fmt"
	"time"
)

// EntryMode is the way in which buyers are admitted to a sale.
type EntryMode int8

// The entry modes, with their numbers in the database.
const (
	EntryOpen EntryMode = 0 // every purchase is admitted
	EntryPass EntryMode = 1 // a purchase needs a pass, which is available from the start of the sale
)

// entryModes maps the words of the API to the modes.
var entryModes = map[string]EntryMode{"open": EntryOpen, "pass": EntryPass}

func (m EntryMode) String() string {
	switch m {
	case EntryOpen:
		return "open"
	case EntryPass:
		return "pass"
	}
	return "unknown"
}

// Entry is how buyers are admitted to a sale.
type Entry struct {
	Mode    EntryMode
	PassTTL time.Duration // how long a pass is valid
	Epoch   uint32        // passes of earlier epochs are void
}

// DefaultEntry is the entry of a sale whose input names none.
var DefaultEntry = Entry{Mode: EntryOpen, PassTTL: 10 * time.Second}

// maxPassTTL bounds the time in which a pass is valid, in seconds.
const maxPassTTL = 3600

func (e Entry) String() string {
	if e.Mode == EntryOpen {
		return e.Mode.String()
	}
	return fmt.Sprintf("%s for %s", e.Mode, e.PassTTL)
}

// EntryInput is the entry that an admin sets.
type EntryInput struct {
	Mode    string // a word of the API
	PassTTL *int   // in seconds; nil selects the default
}

// apply validates the input and sets it on e. The epoch stays.
func (in *EntryInput) apply(e *Entry, bad *InvalidError) {
	mode, ok := entryModes[in.Mode]
	if !ok {
		bad.Add("entry.mode", "must be open or pass")
	}
	e.Mode, e.PassTTL = mode, DefaultEntry.PassTTL
	switch {
	case in.PassTTL == nil:
	case ok && mode == EntryOpen:
		bad.Add("entry.pass_ttl", "is allowed only with mode pass")
	case *in.PassTTL < 1 || *in.PassTTL > maxPassTTL:
		bad.Add("entry.pass_ttl", "must be between 1 and %d seconds", maxPassTTL)
	default:
		e.PassTTL = time.Duration(*in.PassTTL) * time.Second
	}
}

package domain

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a room that has been drawn refuses: a later start and a longer sale without its places, also in two steps, by way
// of another mode. All else stays possible, even in a sale that an earlier release has postponed.
func TestCheckDrawn(t *testing.T) {
	started := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	now := started.Add(30 * time.Minute)
	hours := func(n int) time.Time { return started.Add(time.Duration(n) * time.Hour) }
	sale := func(mode EntryMode, begin, end time.Time) *Sale {
		return &Sale{BeginAt: begin, EndAt: end, Entry: Entry{Mode: mode}}
	}
	drawn := sale(EntryRoom, started, hours(2))
	postponed := sale(EntryRoom, hours(1), hours(2))
	old := sale(EntryRoom, hours(-24*10), hours(-24*8))
	for name, c := range map[string]struct {
		before, after *Sale
		refused       bool
	}{
		"a later start":                     {drawn, sale(EntryRoom, hours(1), hours(2)), true},
		"an earlier start":                  {drawn, sale(EntryRoom, hours(-1), hours(2)), false},
		"a later end":                       {drawn, sale(EntryRoom, started, hours(3)), false},
		"another mode and a later start":    {drawn, sale(EntryOpen, hours(1), hours(2)), false},
		"a room for a later start":          {sale(EntryOpen, hours(1), hours(2)), sale(EntryRoom, hours(1), hours(2)), true},
		"the room again":                    {sale(EntryOpen, started, hours(2)), drawn, false},
		"another end of a postponed sale":   {postponed, sale(EntryRoom, hours(1), hours(3)), false},
		"a postponed sale postponed again":  {postponed, sale(EntryRoom, hours(2), hours(3)), true},
		"a postponed sale begins before":    {postponed, sale(EntryRoom, started, hours(2)), false},
		"a later end without the places":    {old, sale(EntryRoom, old.BeginAt, hours(2)), true},
		"an earlier end without the places": {old, sale(EntryRoom, old.BeginAt, hours(-24*9)), false},
		"another mode without the places":   {old, sale(EntryOpen, old.BeginAt, hours(2)), false},
		"the room again without the places": {sale(EntryOpen, old.BeginAt, hours(2)), sale(EntryRoom, old.BeginAt, hours(2)), true},
	} {
		room := started
		if c.before.BeginAt.Equal(old.BeginAt) {
			room = old.BeginAt
		}
		err := CheckDrawn(room, c.before, c.after, now)
		require.Equal(t, c.refused, err != nil, name)
	}
}

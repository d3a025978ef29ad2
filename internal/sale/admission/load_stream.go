package admission

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
)

// streamPage is the page size for streams. A page blocks Redis while it is read.
const streamPage = 100

// queuedEntries maps the entries of a voucher in the stream to their admissions.
type queuedEntries map[string][]domain.Admission

func (queue queuedEntries) orderIDs() []int64 {
	var ids []int64
	for _, as := range queue {
		for i := range as {
			ids = append(ids, as[i].OrderID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// compareEntries compares ids of stream entries, which are two numbers: milliseconds and a sequence.
func compareEntries(a, b string) int {
	aTime, aSequence, _ := strings.Cut(a, "-")
	bTime, bSequence, _ := strings.Cut(b, "-")

	// Of two numbers the longer is greater.
	return cmp.Or(
		cmp.Compare(len(aTime), len(bTime)), cmp.Compare(aTime, bTime),
		cmp.Compare(len(aSequence), len(bSequence)), cmp.Compare(aSequence, bSequence),
	)
}

// readFrom adds to queue the voucher's entries after the entry last, or all if that is empty. It returns the last entry of
// the stream. It skips entries that cannot be parsed: they hold no units.
func (l *segmentLoad) readFrom(ctx context.Context, queue queuedEntries, last string) (string, error) {
	last, err := l.gate.entries(ctx, l.keys.shard, last, func(entry redis.XMessage) { l.add(queue, entry) })
	if err != nil {
		return "", unavailable(err, "read the queue of voucher %d", l.voucherID)
	}
	return last, nil
}

func (l *segmentLoad) add(queue queuedEntries, entry redis.XMessage) {
	p, err := l.gate.Parse(l.keys.shard.Stream(), entry.ID, entry.Values)
	if err == nil && p.Admissions[0].VoucherID == l.voucherID {
		queue[entry.ID] = p.Admissions
	}
}

// mark adds to queue the entries after last, and removes those that have left the stream. It returns the last entry of
// the stream at the mark.
func (l *segmentLoad) mark(ctx context.Context, queue queuedEntries, last string) (string, error) {
	for {
		reply, err := l.gate.run(ctx, loadMarkScript, l.keys.list(), l.token, after(last), streamPage).Slice()
		switch {
		case errors.Is(err, redis.Nil):
			return "", errStale
		case err != nil:
			return "", unavailable(err, "load voucher %d", l.voucherID)
		case len(reply) == 0:
			// The stream grew by more than a page.
			if last, err = l.readFrom(ctx, queue, last); err != nil {
				return "", err
			}
			continue
		}

		stock, _ := reply[2].(string)
		if l.free, err = strconv.ParseInt(stock, 10, 64); err != nil {
			// The gate to be replaced is broken.
			l.free = 0
		}

		for _, entry := range entriesOf(reply[1]) {
			l.add(queue, entry)
			last = entry.ID
		}

		notes, _ := reply[0].([]any)
		for _, note := range notes {
			text, _ := note.(string)
			if words := strings.Fields(text); len(words) == 3 && words[0] == "out" {
				delete(queue, words[2])
			}
		}

		return last, nil
	}
}

// entriesOf converts stream entries as a script returns them: each is an id and a list of alternating fields and
// values.
func entriesOf(reply any) []redis.XMessage {
	found, _ := reply.([]any)
	entries := make([]redis.XMessage, 0, len(found))
	for _, one := range found {
		pair, _ := one.([]any)
		if len(pair) != 2 {
			continue
		}

		id, _ := pair[0].(string)
		fields, _ := pair[1].([]any)
		entry := redis.XMessage{ID: id, Values: make(map[string]any, len(fields)/2)}
		for i := 0; i+1 < len(fields); i += 2 {
			if name, ok := fields[i].(string); ok {
				entry.Values[name] = fields[i+1]
			}
		}

		entries = append(entries, entry)
	}

	return entries
}

// repairTickets makes the tickets match the admissions in the stream. It removes tickets of admissions that are in no
// entry, which happens after the stream was cut from outside: nothing else removes them, and they count as backlog. It
// restores missing tickets, without which buyers do not see their orders. last is the last entry of the stream at the
// mark. It returns errStale if the load has lost its lease.
func (l *segmentLoad) repairTickets(ctx context.Context, queue queuedEntries, last string) error {
	type ticket struct {
		// entry is empty if the row is in no entry.
		entry string
		user  string
		found bool
	}

	// Tickets are by row.
	tickets := map[string]*ticket{}
	for entry, as := range queue {
		for i, row := range formatRows(as) {
			tickets[row] = &ticket{entry: entry, user: strconv.FormatInt(as[i].UserID, 10)}
		}
	}

	err := l.gate.scan(ctx, l.keys.shard.Queued(), func(user, rows string) {
		for row := range strings.SplitSeq(rows, rowSeparator) {
			if t := tickets[row]; t != nil {
				t.found = true
			} else if a, err := parseRow(row); err == nil && a.VoucherID == l.voucherID {
				tickets[row] = &ticket{user: user, found: true}
			}
		}
	})
	if err != nil {
		return unavailable(err, "read the tickets of voucher %d", l.voucherID)
	}

	// Tickets without an entry may be newer than the mark; a script adds an entry together with its tickets.
	later := queuedEntries{}
	if _, err := l.readFrom(ctx, later, last); err != nil {
		return err
	}
	for entry, as := range later {
		for _, row := range formatRows(as) {
			if t := tickets[row]; t != nil {
				t.entry = entry
			}
		}
	}

	// Wrong has entry, user and row of each ticket to be removed or restored.
	var wrong []any
	for row, t := range tickets {
		if t.found != (t.entry != "") {
			wrong = append(wrong, t.entry, t.user, row)
		}
	}

	for some := range slices.Chunk(wrong, 3*maxRows) {
		done, err := l.gate.run(ctx, loadTicketsScript, l.keys.list(), append([]any{l.token}, some...)...).Bool()
		if err != nil {
			return unavailable(err, "change tickets of voucher %d", l.voucherID)
		}
		if !done {
			return errStale
		}
	}

	return nil
}

package admission

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"seckill/internal/domain"
)

// The row of an admission is the same text in a stream entry, a ticket and a dead letter: order, user, voucher, limit,
// amount, time in ms, currency, waiting instance and queue position, separated by spaces. Two optional parts follow the
// instance, and an earlier release parses them as part of it: after a "~" the sale's own time to pay in seconds, and
// after a "#" a request key, of which 22 characters are the key's hash and 22 the request's hash.

// rowSeparator separates the rows of an entry, and the rows of a user.
const rowSeparator = "\n"

// appendRow appends the row of an admission. It omits the queue position if that is 0: then a script assigns it.
func appendRow(b []byte, a *domain.Admission) []byte {
	for _, n := range [...]int64{a.OrderID, a.UserID, a.VoucherID, int64(a.Limit), a.Amount, a.At.UnixMilli()} {
		b = strconv.AppendInt(b, n, 10)
		b = append(b, ' ')
	}
	b = append(b, a.Currency...)
	b = append(b, ' ')
	b = append(b, a.ReplyTo...)
	if a.PayTimeout != 0 {
		b = append(b, '~')
		b = strconv.AppendInt(b, int64(a.PayTimeout/time.Second), 10)
	}
	if a.Key != nil {
		b = append(b, '#')
		b = base64.RawURLEncoding.AppendEncode(b, a.Key.Hash[:])
		b = base64.RawURLEncoding.AppendEncode(b, a.Key.Request[:])
	}
	if a.Place == 0 {
		return b
	}
	b = append(b, ' ')
	return strconv.AppendInt(b, a.Place, 10)
}

func rowOf(a *domain.Admission) string { return string(appendRow(nil, a)) }

// rowsOf formats many rows with a few allocations: the rows share one string.
func rowsOf(as []domain.Admission) []string {
	const typicalRow = 64 // bytes
	text, ends := make([]byte, 0, typicalRow*len(as)), make([]int, len(as))
	for i := range as {
		text = appendRow(text, &as[i])
		ends[i] = len(text)
	}
	all, rows, begin := string(text), make([]string, len(as)), 0
	for i, end := range ends {
		rows[i] = all[begin:end]
		begin = end
	}
	return rows
}

func parseRow(row string) (domain.Admission, error) {
	var numbers [6]int64
	rest := row
	for i := range numbers {
		word, after, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return domain.Admission{}, fmt.Errorf("admission: row %q: %w", row, err)
		}
		numbers[i], rest = n, after
	}
	currency, replyTo, found := strings.Cut(rest, " ")
	if !found { // an earlier release wrote no currency
		currency, replyTo = domain.DefaultCurrency, rest
	}
	replyTo, number, found := strings.Cut(replyTo, " ")
	place := int64(0)
	if found { // an earlier release wrote no queue position
		var err error
		if place, err = strconv.ParseInt(number, 10, 64); err != nil {
			return domain.Admission{}, fmt.Errorf("admission: row %q: queue position: %w", row, err)
		}
	}
	replyTo, keyText, found := strings.Cut(replyTo, "#")
	var key *domain.RequestKey
	if found {
		var err error
		if key, err = parseKey(keyText); err != nil {
			return domain.Admission{}, fmt.Errorf("admission: row %q: request key: %w", row, err)
		}
	}
	replyTo, secondsText, found := strings.Cut(replyTo, "~")
	seconds := int64(0)
	if found {
		var err error
		if seconds, err = strconv.ParseInt(secondsText, 10, 64); err != nil {
			return domain.Admission{}, fmt.Errorf("admission: row %q: time to pay: %w", row, err)
		}
	}
	return domain.Admission{
		PayTimeout: time.Duration(seconds) * time.Second, Key: key, OrderID: numbers[0], UserID: numbers[1], VoucherID: numbers[2], Limit: int(numbers[3]), Amount: numbers[4],
		Currency: currency, At: time.UnixMilli(numbers[5]).UTC(), ReplyTo: replyTo, Place: place,
	}, nil
}

func parseKey(text string) (*domain.RequestKey, error) {
	const half = 22
	var k domain.RequestKey
	if len(text) != 2*half {
		return nil, fmt.Errorf("%d characters instead of %d", len(text), 2*half)
	}
	for i, into := range [][]byte{k.Hash[:], k.Request[:]} {
		if _, err := base64.RawURLEncoding.Decode(into, []byte(text[i*half:(i+1)*half])); err != nil {
			return nil, err
		}
	}
	return &k, nil
}

func parseRows(text string) ([]domain.Admission, error) {
	as := make([]domain.Admission, 0, 1+strings.Count(text, rowSeparator))
	for row := range strings.SplitSeq(text, rowSeparator) {
		a, err := parseRow(row)
		if err != nil {
			return nil, err
		}
		as = append(as, a)
	}
	return as, nil
}

var errMixedRows = errors.New("admission: the entry has rows of several vouchers")

// Parse parses an entry of one of the Streams. It returns an error if a row is malformed or the rows are of several
// vouchers; the gate writes no such entry.
func (g *Gate) Parse(stream, entry string, fields map[string]any) (domain.StreamEntry, error) {
	text, _ := fields["rows"].(string)
	as, err := parseRows(text)
	if err != nil {
		return domain.StreamEntry{}, err
	}
	voucher := as[0].VoucherID
	if slices.ContainsFunc(as, func(a domain.Admission) bool { return a.VoucherID != voucher }) {
		return domain.StreamEntry{}, errMixedRows
	}
	p := domain.StreamEntry{Stream: stream, Entry: entry, Admissions: as}
	if tries, ok := fields["tries"].(string); ok {
		if p.Tries, err = strconv.ParseInt(tries, 10, 64); err != nil {
			return domain.StreamEntry{}, fmt.Errorf("admission: tries: %w", err)
		}
	}
	return p, nil
}

package admission

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"seckill/internal/domain"
)

// The row of an admission is the same text in a stream entry, a ticket and a dead letter: order, user, voucher, limit,
// amount, time in ms, currency, optional parts and queue position, separated by spaces. The optional parts follow each
// other: after a "!" the id of the offer, after a "@" the W3C traceparent of a sampled request, after a "+" the round of the
// pass of a waiting room, after a "~" the sale's own time to pay in seconds, and after a "#" a request key, of which 22
// characters are the key's hash and 22 the request's hash. An earlier release wrote the name of a server before them.

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
	if a.OfferID != (domain.OfferID{}) {
		b = append(b, '!')
		b = base64.RawURLEncoding.AppendEncode(b, a.OfferID[:])
	}

	if a.Trace != nil {
		b = append(b, '@')
		b = append(b, a.Trace.Parent...)
	}

	if a.Round != 0 {
		b = append(b, '+')
		b = strconv.AppendUint(b, uint64(a.Round), 10)
	}

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

func formatRow(a *domain.Admission) string { return string(appendRow(nil, a)) }

// formatRows returns the rows of admissions. They share one string, so that it takes few allocations.
func formatRows(as []domain.Admission) []string {
	const typicalRow = 64 // bytes
	text := make([]byte, 0, typicalRow*len(as))
	ends := make([]int, len(as))
	for i := range as {
		text = appendRow(text, &as[i])
		ends[i] = len(text)
	}

	all := string(text)
	rows := make([]string, len(as))
	begin := 0
	for i, end := range ends {
		rows[i] = all[begin:end]
		begin = end
	}

	return rows
}

func parseRow(row string) (domain.Admission, error) {
	var a domain.Admission
	var limit, ms, seconds, round int64
	rest := row
	for _, n := range [...]*int64{&a.OrderID, &a.UserID, &a.VoucherID, &limit, &a.Amount, &ms} {
		word, after, _ := strings.Cut(rest, " ")
		var err error
		if *n, err = strconv.ParseInt(word, 10, 64); err != nil {
			return domain.Admission{}, fmt.Errorf("admission: row %q: %w", row, err)
		}
		rest = after
	}

	currency, rest, found := strings.Cut(rest, " ")
	if !found {
		return domain.Admission{}, fmt.Errorf("admission: row %q: too short", row)
	}

	var errs [5]error
	var key domain.RequestKey
	var keyed bool
	rest, a.Place, errs[0] = cutNumber(rest, " ")
	rest, keyed, errs[1] = cutHashes(rest, "#", &key.Hash, &key.Request)
	rest, seconds, errs[2] = cutNumber(rest, "~")
	rest, round, errs[3] = cutNumber(rest, "+")
	rest, parent, traced := strings.Cut(rest, "@")
	_, _, errs[4] = cutHashes(rest, "!", (*[16]byte)(&a.OfferID))
	if err := errors.Join(errs[:]...); err != nil {
		return domain.Admission{}, fmt.Errorf("admission: row %q: %w", row, err)
	}

	a.Limit = int(limit)
	a.Currency = currency
	a.At = time.UnixMilli(ms).UTC()
	a.PayTimeout = time.Duration(seconds) * time.Second
	a.Round = uint32(round) //nolint:gosec // as it was written

	if keyed {
		a.Key = new(key)
	}
	if traced {
		a.Trace = &domain.Trace{Parent: parent, Since: a.At}
	}

	return a, nil
}

func cutNumber(text, separator string) (string, int64, error) {
	rest, number, found := strings.Cut(text, separator)
	if !found {
		return rest, 0, nil
	}

	n, err := strconv.ParseInt(number, 10, 64)
	return rest, n, err
}

// hashLength is the number of characters of a hash.
const hashLength = 22

// cutHashes cuts off and decodes the hashes after the separator, if there are any.
func cutHashes(text, separator string, hashes ...*[16]byte) (rest string, found bool, err error) {
	rest, encoded, found := strings.Cut(text, separator)
	if !found {
		return rest, false, nil
	}
	if len(encoded) != hashLength*len(hashes) {
		return "", true, fmt.Errorf("%q is not %d hashes", encoded, len(hashes))
	}

	for i, hash := range hashes {
		_, errHash := base64.RawURLEncoding.Decode(hash[:], []byte(encoded[i*hashLength:][:hashLength]))
		err = errors.Join(err, errHash)
	}
	return rest, true, err
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

// Parse parses an entry of one of the Streams. It returns an error if it is malformed; the gate writes no such entry.
func (g *Gate) Parse(stream, entry string, fields map[string]any) (domain.StreamEntry, error) {
	text, _ := fields["rows"].(string)
	as, err := parseRows(text)
	if err != nil {
		return domain.StreamEntry{}, err
	}

	text, _ = fields["generation"].(string)
	generation, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return domain.StreamEntry{}, fmt.Errorf("admission: generation: %w", err)
	}
	for i := range as {
		as[i].Generation = generation
	}

	p := domain.StreamEntry{
		Stream:     stream,
		Entry:      entry,
		Admissions: as,
	}
	if tries, ok := fields["tries"].(string); ok {
		if p.Tries, err = strconv.ParseInt(tries, 10, 64); err != nil {
			return domain.StreamEntry{}, fmt.Errorf("admission: tries: %w", err)
		}
	}

	return p, nil
}

package admission

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"seckill/internal/service"
)

// The row of an admission is the same text wherever Redis holds it: in an entry of the stream, in a ticket, in a dead
// letter. It has order, user, voucher, limit, amount, time in ms, currency, the instance that waits and the place in the
// line, with spaces between. After the instance come # and the request key, if there is one: 22 characters of its hash
// and 22 of what the request said. An earlier release takes them for a part of the instance.

// rowSeparator stands between the rows of an entry, and of a user.
const rowSeparator = "\n"

func appendRow(b []byte, a *service.Admission) []byte {
	for _, n := range [...]int64{a.OrderID, a.UserID, a.VoucherID, int64(a.Limit), a.Amount, a.At.UnixMilli()} {
		b = strconv.AppendInt(b, n, 10)
		b = append(b, ' ')
	}
	b = append(b, a.Currency...)
	b = append(b, ' ')
	b = append(b, a.ReplyTo...)
	if a.Key != nil {
		b = append(b, '#')
		b = base64.RawURLEncoding.AppendEncode(b, a.Key.Hash[:])
		b = base64.RawURLEncoding.AppendEncode(b, a.Key.Request[:])
	}
	if a.Place == 0 { // the script gives it
		return b
	}
	b = append(b, ' ')
	return strconv.AppendInt(b, a.Place, 10)
}

func rowOf(a *service.Admission) string { return string(appendRow(nil, a)) }

// rowsOf writes many rows into one piece of memory.
func rowsOf(as []service.Admission) []string {
	const usual = 64
	text, ends := make([]byte, 0, usual*len(as)), make([]int, len(as))
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

func parseRow(row string) (service.Admission, error) {
	var numbers [6]int64
	rest := row
	for i := range numbers {
		word, after, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return service.Admission{}, fmt.Errorf("admission: row %q: %w", row, err)
		}
		numbers[i], rest = n, after
	}
	currency, replyTo, found := strings.Cut(rest, " ")
	if !found { // written before there were currencies
		currency, replyTo = service.DefaultCurrency, rest
	}
	replyTo, number, found := strings.Cut(replyTo, " ")
	place := int64(0)
	if found { // else written before there were places
		var err error
		if place, err = strconv.ParseInt(number, 10, 64); err != nil {
			return service.Admission{}, fmt.Errorf("admission: row %q: place: %w", row, err)
		}
	}
	replyTo, keyText, found := strings.Cut(replyTo, "#")
	var key *service.RequestKey
	if found {
		var err error
		if key, err = parseKey(keyText); err != nil {
			return service.Admission{}, fmt.Errorf("admission: row %q: request key: %w", row, err)
		}
	}
	return service.Admission{
		Key: key, OrderID: numbers[0], UserID: numbers[1], VoucherID: numbers[2], Limit: int(numbers[3]), Amount: numbers[4],
		Currency: currency, At: time.UnixMilli(numbers[5]).UTC(), ReplyTo: replyTo, Place: place,
	}, nil
}

func parseKey(text string) (*service.RequestKey, error) {
	const half = 22
	var k service.RequestKey
	if len(text) != 2*half {
		return nil, errors.New("of another length")
	}
	for i, into := range [][]byte{k.Hash[:], k.Request[:]} {
		if _, err := base64.RawURLEncoding.Decode(into, []byte(text[i*half:(i+1)*half])); err != nil {
			return nil, err
		}
	}
	return &k, nil
}

func parseRows(text string) ([]service.Admission, error) {
	as := make([]service.Admission, 0, 1+strings.Count(text, rowSeparator))
	for row := range strings.SplitSeq(text, rowSeparator) {
		a, err := parseRow(row)
		if err != nil {
			return nil, err
		}
		as = append(as, a)
	}
	return as, nil
}

var errNotOurs = errors.New("admission: it has rows of several vouchers, or of another stream")

// Parse reads an entry of one of the Streams. It is an error if any of its rows cannot be read or does not belong
// there: nobody but the gate should write.
func (g *Gate) Parse(stream, entry string, fields map[string]any) (service.Parcel, error) {
	text, _ := fields["rows"].(string)
	as, err := parseRows(text)
	if err != nil {
		return service.Parcel{}, err
	}
	voucher := as[0].VoucherID
	if shardOf(voucher).stream() != stream ||
		slices.ContainsFunc(as, func(a service.Admission) bool { return a.VoucherID != voucher }) {
		return service.Parcel{}, errNotOurs
	}
	p := service.Parcel{Entry: entry, Admissions: as}
	if tries, ok := fields["tries"].(string); ok {
		if p.Tries, err = strconv.ParseInt(tries, 10, 64); err != nil {
			return service.Parcel{}, fmt.Errorf("admission: tries: %w", err)
		}
	}
	return p, nil
}

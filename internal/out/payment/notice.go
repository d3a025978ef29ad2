package payment

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"seckill/internal/domain"
	"seckill/internal/out/webhook"
)

// results are the payments' statuses that a provider reports, by their words in a notice.
var results = map[string]domain.PaymentStatus{
	"succeeded": domain.PaymentSucceeded,
	"failed":    domain.PaymentFailed,
	"refunded":  domain.PaymentRefunded,
	"disputed":  domain.PaymentDisputed,
}

// unfinished are the statuses without a result, in the answer to a query.
var unfinished = []string{"", "pending", "refunding"}

func resultOf(status string) (domain.PaymentStatus, bool) {
	result, known := results[word(status)]
	return result, known
}

func word(status string) string { return strings.ToLower(strings.TrimSpace(status)) }

// notice is the body of a webhook call. Other fields are ignored.
type notice struct {
	Ref string `json:"provider_ref"`
	// A string, or a number from a provider with 64-bit numbers.
	OrderID  json.RawMessage `json:"order_id"`
	Amount   json.RawMessage `json:"amount"`   // likewise
	Currency string          `json:"currency"` // optional
	Status   string          `json:"status"`
}

// maxRef is the length of the longest reference that the database can store.
const maxRef = 128

// isRef reports whether s is a valid reference: 1 to maxRef characters of printable ASCII without spaces, which no
// database and no log changes.
func isRef(s string) bool {
	return s != "" && len(s) <= maxRef && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

func readNotice(api webhook.Client, signature string, body []byte) (domain.PaymentNotice, error) {
	if err := webhook.Verify(api.Secrets, body, signature, api.Now()); err != nil {
		return domain.PaymentNotice{}, err
	}
	return parse(body)
}

// decode is json.Unmarshal of what a provider sent. Programs on Windows write a byte order mark before the text, which RFC
// 8259 lets a parser ignore. encoding/json would also read a member Amount, which is another one, as the amount.
func decode(body []byte, v any) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(bytes.TrimPrefix(body, []byte("\uFEFF")), &members); err != nil {
		return err
	}

	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return name != strings.ToLower(name) })
	exact, err := json.Marshal(members)
	if err != nil {
		return err
	}
	return json.Unmarshal(exact, v)
}

// parse decodes and validates a notice. Error: *domain.InvalidError, with what could be read.
func parse(body []byte) (domain.PaymentNotice, error) {
	read := domain.PaymentNotice{Body: body}
	var n notice
	broken := decode(body, &n)

	id, err := strconv.ParseInt(unquoted(n.OrderID), 10, 64)
	if err == nil && id > 0 {
		read.OrderID = id
	}
	if ref := strings.TrimSpace(n.Ref); isRef(ref) {
		read.Ref = ref
	}
	amount, whole := wholeNumber(unquoted(n.Amount))
	result, known := resultOf(n.Status)
	switch {
	// A field of another type does not keep the others from being read.
	case broken != nil:
		return read, domain.Invalid("body", "is not a payment notice in JSON")
	case read.Ref == "":
		return read, domain.Invalid("provider_ref", "must have 1 to %d printable ASCII characters", maxRef)
	case read.OrderID == 0:
		return read, domain.Invalid("order_id", "must be the id of an order")
	case !whole:
		return read, domain.Invalid("amount", "must be a whole number of the currency's smallest unit")
	case !known:
		return read, domain.Invalid("status", "must be succeeded, failed, refunded or disputed")
	}

	read.Amount = amount
	// Banks book what goes back as a negative amount.
	if result.Returned() && amount < 0 {
		read.Amount = -amount
	}

	read.Currency = strings.ToUpper(strings.TrimSpace(n.Currency))
	read.Result = result
	return read, nil
}

// writtenNumber matches a number as banks write it: 8000, or 8000.00, 8.0E3 and 8.0e+003 from programs that compute with
// fractions.
var writtenNumber = regexp.MustCompile(`^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$`)

func wholeNumber(text string) (int64, bool) {
	if len(text) > maxRef || !writtenNumber.MatchString(text) {
		return 0, false
	}
	n, ok := new(big.Rat).SetString(text)
	if !ok || !n.IsInt() || !n.Num().IsInt64() {
		return 0, false
	}
	return n.Num().Int64(), true
}

func unquoted(value json.RawMessage) string {
	text := string(value)
	if inner, err := strconv.Unquote(text); err == nil {
		return strings.TrimSpace(inner)
	}
	return text
}

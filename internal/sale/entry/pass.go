package entry

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"time"

	"seckill/internal/domain"
)

// The layout of a seal: key id, two numbers, expiry in Unix milliseconds, truncated HMAC. User and voucher are not in it,
// because the request names both.
const (
	sealFirst  = 1
	sealSecond = sealFirst + 4
	sealExpiry = sealSecond + 4
	sealTag    = sealExpiry + 8
	sealLength = sealTag + 16
)

// sealer signs two numbers and an expiry for a user and a voucher, and checks the signature without I/O. Another purpose
// has other keys. It is safe for concurrent use.
type sealer struct {
	// The last byte of the newest secret's id. Earlier releases select the key by it.
	signer byte
	keys   domain.Keyring
}

func newSealer(secrets domain.Keyring, purpose string) sealer {
	return sealer{
		signer: byte(secrets[0].ID & 0xff), //nolint:gosec // one byte
		keys:   secrets.Derive(purpose),
	}
}

// seal returns a text. expires has a precision of milliseconds.
func (s *sealer) seal(userID, voucherID int64, expires time.Time, first, second uint32) string {
	seal := make([]byte, 0, sealLength)
	seal = append(seal, s.signer)
	seal = binary.BigEndian.AppendUint32(seal, first)
	seal = binary.BigEndian.AppendUint32(seal, second)
	seal = binary.BigEndian.AppendUint64(seal, uint64(expires.UnixMilli())) //nolint:gosec // after 1970

	seal = append(seal, signature(s.keys.Signer(), seal, userID, voucherID)...)
	return base64.RawURLEncoding.EncodeToString(seal)
}

type sealed struct {
	first, second uint32
	expires       time.Time
}

// open returns what a text says, and whether it was sealed for the user and the voucher. It does not check the expiry.
func (s *sealer) open(text string, userID, voucherID int64) (sealed, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != sealLength {
		return sealed{}, false
	}

	valid := s.keys.Any(func(key []byte) bool {
		return hmac.Equal(signature(key, raw[:sealTag], userID, voucherID), raw[sealTag:])
	})

	millis := int64(binary.BigEndian.Uint64(raw[sealExpiry:])) //nolint:gosec // as it was sealed
	return sealed{
		first:   binary.BigEndian.Uint32(raw[sealFirst:]),
		second:  binary.BigEndian.Uint32(raw[sealSecond:]),
		expires: time.UnixMilli(millis),
	}, valid
}

// signature returns the truncated HMAC of the head of a seal, the user and the voucher.
func signature(key, head []byte, userID, voucherID int64) []byte {
	message := slices.Clip(head)
	message = binary.BigEndian.AppendUint64(message, uint64(userID))    //nolint:gosec // ids are positive
	message = binary.BigEndian.AppendUint64(message, uint64(voucherID)) //nolint:gosec // ids are positive
	return domain.MAC(key, message)[:sealLength-sealTag]
}

// Passes issues and checks passes. A pass allows one user to send purchases of one voucher until it expires or the
// epoch of the sale changes. It gives no unit, and it is checked without I/O. A pass of a waiting room names the round
// of admissions that it belongs to. Passes is safe for concurrent use.
type Passes struct{ seals sealer }

// NewPasses returns the passes of servers with these signing secrets. The first signs; all are accepted.
func NewPasses(secrets domain.Keyring) *Passes { return &Passes{newSealer(secrets, "entry passes")} }

// Issue returns a pass of a round, or of no waiting room if the round is 0. expires has a precision of milliseconds.
func (p *Passes) Issue(userID, voucherID int64, epoch, round uint32, expires time.Time) string {
	return p.seals.seal(userID, voucherID, expires, epoch, round)
}

// Check returns the round of a pass that was issued for the user and the voucher in this epoch and is valid at now.
// Errors: domain.ErrPassExpired for a pass of theirs that was valid once, domain.ErrEntryRequired for anything else.
func (p *Passes) Check(pass string, userID, voucherID int64, epoch uint32, now time.Time) (uint32, error) {
	seal, ok := p.seals.open(pass, userID, voucherID)
	if !ok {
		return 0, domain.ErrEntryRequired
	}
	if seal.first != epoch || !now.Before(seal.expires) {
		return 0, domain.ErrPassExpired
	}
	return seal.second, nil
}

// Tickets issues and checks tickets. A ticket is the proof of a place in the waiting room of a sale; it does not
// expire. Tickets is safe for concurrent use.
type Tickets struct{ seals sealer }

// NewTickets returns the tickets of servers with these signing secrets. The first signs; all are accepted.
func NewTickets(secrets domain.Keyring) *Tickets {
	return &Tickets{newSealer(secrets, "entry tickets")}
}

// Issue returns the ticket of the place with a number.
func (t *Tickets) Issue(userID, voucherID int64, number uint32) string {
	return t.seals.seal(userID, voucherID, domain.MaxTime, number, 0)
}

// Number returns the number on a ticket. Error: domain.ErrEntryRequired (not a ticket of the user for this sale).
func (t *Tickets) Number(ticket string, userID, voucherID int64) (uint32, error) {
	seal, ok := t.seals.open(ticket, userID, voucherID)
	if !ok {
		return 0, domain.ErrEntryRequired
	}
	return seal.first, nil
}

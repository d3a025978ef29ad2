package entry

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"sync"
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
	signer byte
	// macs holds pools of *sealMAC by sealID, newest first.
	macs map[byte][]*sync.Pool
}

// sealMAC is an HMAC with its buffers, so that a check does not allocate.
type sealMAC struct {
	hash hash.Hash
	// message is the signed bytes: the head of a seal, user, voucher.
	message [sealTag + 16]byte
	sum     [sha256.Size]byte
}

func newSealer(secrets domain.Keyring, purpose string) sealer {
	s := sealer{signer: sealID(secrets[0]), macs: map[byte][]*sync.Pool{}}
	for _, k := range secrets {
		key := domain.DeriveSecret(k.Secret, purpose)
		// An HMAC that is reset keeps the state after the key, which saves half of the hashing.
		s.macs[sealID(k)] = append(s.macs[sealID(k)], &sync.Pool{New: func() any { return &sealMAC{hash: hmac.New(sha256.New, key)} }})
	}
	return s
}

// sealID returns the key id in a seal: the last byte of the key's id, which two keys may share.
func sealID(k domain.Key) byte { return byte(k.ID & 0xff) } //nolint:gosec // one byte

// seal returns a text. expires has a precision of milliseconds.
func (s *sealer) seal(userID, voucherID int64, expires time.Time, first, second uint32) string {
	seal := make([]byte, 0, sealLength)
	seal = append(seal, s.signer)
	seal = binary.BigEndian.AppendUint32(seal, first)
	seal = binary.BigEndian.AppendUint32(seal, second)
	seal = binary.BigEndian.AppendUint64(seal, uint64(expires.UnixMilli())) //nolint:gosec // after 1970

	macs := s.macs[s.signer][0]
	m := macs.Get().(*sealMAC) //nolint:forcetypeassert // by New
	defer macs.Put(m)

	seal = append(seal, m.tag(seal, userID, voucherID)...)
	return base64.RawURLEncoding.EncodeToString(seal)
}

type sealed struct {
	first, second uint32
	expires       time.Time
}

// open returns what a text says, and whether it was sealed for the user and the voucher. It does not check the expiry.
func (s *sealer) open(text string, userID, voucherID int64) (sealed, bool) {
	// encoded holds raw in base64, without an allocation.
	var (
		raw     [sealLength]byte
		encoded [sealLength / 3 * 4]byte
	)

	if len(text) != len(encoded) {
		return sealed{}, false
	}

	copy(encoded[:], text)
	if _, err := base64.RawURLEncoding.Decode(raw[:], encoded[:]); err != nil {
		return sealed{}, false
	}

	valid := false
	for _, macs := range s.macs[raw[0]] {
		m := macs.Get().(*sealMAC) //nolint:forcetypeassert // by New
		valid = valid || hmac.Equal(m.tag(raw[:sealTag], userID, voucherID), raw[sealTag:])
		macs.Put(m)
	}

	millis := int64(binary.BigEndian.Uint64(raw[sealExpiry:])) //nolint:gosec // as it was sealed
	return sealed{
		first:   binary.BigEndian.Uint32(raw[sealFirst:]),
		second:  binary.BigEndian.Uint32(raw[sealSecond:]),
		expires: time.UnixMilli(millis),
	}, valid
}

// tag returns the truncated HMAC of the head of a seal, the user and the voucher. It is valid until the next call.
func (m *sealMAC) tag(head []byte, userID, voucherID int64) []byte {
	message := append(m.message[:0], head...)
	message = binary.BigEndian.AppendUint64(message, uint64(userID))    //nolint:gosec // ids are positive
	message = binary.BigEndian.AppendUint64(message, uint64(voucherID)) //nolint:gosec // ids are positive
	m.hash.Reset()
	m.hash.Write(message)
	return m.hash.Sum(m.sum[:0])[:sealLength-sealTag]
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

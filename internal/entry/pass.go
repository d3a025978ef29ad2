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

// The layout of a seal: key id, a number, expiry in Unix milliseconds, truncated HMAC. User and voucher are not in it,
// because the request names both.
const (
	sealNumber = 1
	sealExpiry = sealNumber + 4
	sealTag    = sealExpiry + 8
	sealSize   = sealTag + 16
	sealText   = (sealSize*8 + 5) / 6 // in base64 without padding
)

var sealEncoding = base64.RawURLEncoding.Strict()

// sealer signs a number and an expiry for a user and a voucher, and checks the signature without I/O. It is safe for
// concurrent use.
type sealer struct {
	signer byte
	macs   map[byte][]*sync.Pool // of *sealMAC, by sealID; newest first
}

// sealMAC is an HMAC with its buffers, so that a check does not allocate.
type sealMAC struct {
	hash    hash.Hash
	message [sealTag + 16]byte // the signed bytes: the head of a seal, user, voucher
	sum     [sha256.Size]byte
}

// newSealer returns a sealer that signs with the first key and accepts all of them.
func newSealer(keys domain.Keyring) sealer {
	s := sealer{signer: sealID(keys[0]), macs: map[byte][]*sync.Pool{}}
	for _, k := range keys {
		// An HMAC that is reset keeps the state after the key, which saves half of the hashing.
		s.macs[sealID(k)] = append(s.macs[sealID(k)], &sync.Pool{New: func() any { return &sealMAC{hash: hmac.New(sha256.New, k.Secret)} }})
	}
	return s
}

// sealID returns the key id in a seal: the last byte of the key's id, which two keys may share.
func sealID(k domain.Key) byte { return byte(k.ID & 0xff) } //nolint:gosec // one byte

// seal returns a text. expires has a precision of milliseconds.
func (s *sealer) seal(userID, voucherID int64, number uint32, expires time.Time) string {
	var seal [sealSize]byte
	seal[0] = s.signer
	binary.BigEndian.PutUint32(seal[sealNumber:], number)
	binary.BigEndian.PutUint64(seal[sealExpiry:], uint64(expires.UnixMilli())) //nolint:gosec // after 1970
	macs := s.macs[s.signer][0]
	m := macs.Get().(*sealMAC) //nolint:forcetypeassert // by New
	defer macs.Put(m)
	copy(seal[sealTag:], m.tag(seal[:sealTag], userID, voucherID))
	return sealEncoding.EncodeToString(seal[:])
}

// open returns what a text says, and whether it was sealed for the user and the voucher. It does not check the expiry.
func (s *sealer) open(text string, userID, voucherID int64) (number uint32, expires time.Time, ok bool) {
	var (
		raw   [sealSize]byte
		bytes [sealText]byte
	)
	if len(text) != sealText {
		return 0, time.Time{}, false
	}
	copy(bytes[:], text)
	if _, err := sealEncoding.Decode(raw[:], bytes[:]); err != nil {
		return 0, time.Time{}, false
	}
	for _, macs := range s.macs[raw[0]] {
		m := macs.Get().(*sealMAC) //nolint:forcetypeassert // by New
		ok = ok || hmac.Equal(m.tag(raw[:sealTag], userID, voucherID), raw[sealTag:])
		macs.Put(m)
	}
	millis := int64(binary.BigEndian.Uint64(raw[sealExpiry:])) //nolint:gosec // as it was sealed
	return binary.BigEndian.Uint32(raw[sealNumber:]), time.UnixMilli(millis), ok
}

// tag returns the truncated HMAC of the head of a seal, the user and the voucher. It is valid until the next call.
func (m *sealMAC) tag(head []byte, userID, voucherID int64) []byte {
	copy(m.message[:], head)
	binary.BigEndian.PutUint64(m.message[sealTag:], uint64(userID))      //nolint:gosec // ids are positive
	binary.BigEndian.PutUint64(m.message[sealTag+8:], uint64(voucherID)) //nolint:gosec // ids are positive
	m.hash.Reset()
	m.hash.Write(m.message[:])
	return m.hash.Sum(m.sum[:0])[:sealSize-sealTag]
}

// Passes issues and checks passes. A pass allows one user to send purchases of one voucher until it expires or the
// epoch of the sale changes. It gives no unit, and it is checked without I/O. Passes is safe for concurrent use.
type Passes struct{ seals sealer }

// NewPasses returns Passes that sign with the first key and accept all of them.
func NewPasses(keys domain.Keyring) *Passes { return &Passes{newSealer(keys)} }

// Issue returns a pass. expires has a precision of milliseconds.
func (p *Passes) Issue(userID, voucherID int64, epoch uint32, expires time.Time) string {
	return p.seals.seal(userID, voucherID, epoch, expires)
}

// Check returns the expiry of a pass that was issued for the user and the voucher in this epoch and is valid at now.
// Errors: domain.ErrPassExpired for a pass of theirs that was valid once, domain.ErrEntryRequired for anything else.
func (p *Passes) Check(pass string, userID, voucherID int64, epoch uint32, now time.Time) (expires time.Time, err error) {
	issued, expires, ok := p.seals.open(pass, userID, voucherID)
	switch {
	case !ok:
		return time.Time{}, domain.ErrEntryRequired
	case issued != epoch, !now.Before(expires):
		return time.Time{}, domain.ErrPassExpired
	}
	return expires, nil
}

// Tickets issues and checks tickets. A ticket is the proof of a place in the waiting room of a sale; it does not
// expire. Tickets is safe for concurrent use.
type Tickets struct{ seals sealer }

// NewTickets returns Tickets that sign with the first key and accept all of them.
func NewTickets(keys domain.Keyring) *Tickets { return &Tickets{newSealer(keys)} }

// Issue returns the ticket of the place with a number.
func (t *Tickets) Issue(userID, voucherID int64, number uint32) string {
	return t.seals.seal(userID, voucherID, number, domain.MaxTime)
}

// Number returns the number on a ticket. Error: domain.ErrEntryRequired (not a ticket of the user for this sale).
func (t *Tickets) Number(ticket string, userID, voucherID int64) (uint32, error) {
	number, _, ok := t.seals.open(ticket, userID, voucherID)
	if !ok {
		return 0, domain.ErrEntryRequired
	}
	return number, nil
}

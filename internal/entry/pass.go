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

// The layout of a pass: key id, epoch, expiry in Unix milliseconds, truncated HMAC. User and voucher are not in it,
// because the request names both.
const (
	passEpoch  = 1
	passExpiry = passEpoch + 4
	passTag    = passExpiry + 8
	passSize   = passTag + 16
	passText   = (passSize*8 + 5) / 6 // in base64 without padding
)

var passEncoding = base64.RawURLEncoding.Strict()

// Key signs passes. Keys with different ids can be valid at the same time, so that a secret can be replaced.
type Key struct {
	ID     byte
	Secret []byte
}

// Passes issues and checks passes. A pass allows one user to send purchases of one voucher until it expires or the
// epoch of the sale changes. It gives no unit, and it is checked without I/O. Passes is safe for concurrent use.
type Passes struct {
	signer byte
	macs   map[byte]*sync.Pool // of *passMAC, by key id
}

// passMAC is an HMAC with its buffers, so that a check does not allocate.
type passMAC struct {
	hash    hash.Hash
	message [passTag + 16]byte // the signed bytes: the head of a pass, user, voucher
	sum     [sha256.Size]byte
}

// NewPasses returns Passes that sign with the first key and accept all of them.
func NewPasses(signer Key, others ...Key) *Passes {
	p := &Passes{signer: signer.ID, macs: map[byte]*sync.Pool{}}
	for _, k := range append(others, signer) {
		// An HMAC that is reset keeps the state after the key, which saves half of the hashing.
		p.macs[k.ID] = &sync.Pool{New: func() any { return &passMAC{hash: hmac.New(sha256.New, k.Secret)} }}
	}
	return p
}

// Issue returns a pass. expires has a precision of milliseconds.
func (p *Passes) Issue(userID, voucherID int64, epoch uint32, expires time.Time) string {
	var pass [passSize]byte
	pass[0] = p.signer
	binary.BigEndian.PutUint32(pass[passEpoch:], epoch)
	binary.BigEndian.PutUint64(pass[passExpiry:], uint64(expires.UnixMilli())) //nolint:gosec // after 1970
	macs := p.macs[p.signer]
	m := macs.Get().(*passMAC) //nolint:forcetypeassert // by New
	defer macs.Put(m)
	copy(pass[passTag:], m.tag(pass[:passTag], userID, voucherID))
	return passEncoding.EncodeToString(pass[:])
}

// Check implements service.PassChecker.
func (p *Passes) Check(pass string, userID, voucherID int64, epoch uint32, now time.Time) error {
	var (
		raw  [passSize]byte
		text [passText]byte
	)
	if len(pass) != passText {
		return domain.ErrEntryRequired
	}
	copy(text[:], pass)
	if _, err := passEncoding.Decode(raw[:], text[:]); err != nil {
		return domain.ErrEntryRequired
	}
	macs := p.macs[raw[0]]
	if macs == nil {
		return domain.ErrEntryRequired
	}
	m := macs.Get().(*passMAC) //nolint:forcetypeassert // by New
	genuine := hmac.Equal(m.tag(raw[:passTag], userID, voucherID), raw[passTag:])
	macs.Put(m)
	switch {
	case !genuine:
		return domain.ErrEntryRequired
	case binary.BigEndian.Uint32(raw[passEpoch:]) != epoch,
		uint64(now.UnixMilli()) >= binary.BigEndian.Uint64(raw[passExpiry:]): //nolint:gosec // after 1970
		return domain.ErrPassExpired
	}
	return nil
}

// tag returns the truncated HMAC of the head of a pass, the user and the voucher. It is valid until the next call.
func (m *passMAC) tag(head []byte, userID, voucherID int64) []byte {
	copy(m.message[:], head)
	binary.BigEndian.PutUint64(m.message[passTag:], uint64(userID))      //nolint:gosec // ids are positive
	binary.BigEndian.PutUint64(m.message[passTag+8:], uint64(voucherID)) //nolint:gosec // ids are positive
	m.hash.Reset()
	m.hash.Write(m.message[:])
	return m.hash.Sum(m.sum[:0])[:passSize-passTag]
}

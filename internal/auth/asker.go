package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"seckill/internal/domain"
	"seckill/internal/kit/ratelimit"
)

// Asker is the origin of a request for a code or of a login.
type Asker struct {
	Address netip.Addr
	// Proof is what the last login or refresh on this device has returned in Login.Proof, or empty. It is valid for the
	// phone of that login, until the user logs out everywhere or deletes the account.
	Proof string
}

type asker struct {
	key string
	// The network of a stranger.
	network string
	// A device that has logged in to the phone.
	known bool
}

// identify returns the asker of a code for phone: a known device, otherwise an address. It reads the user only for a device
// that has logged in to the phone, and not often, because a client without a session must not cost a query.
// Errors: *domain.RateLimitedError, ErrUnavailable.
func (a *Service) identify(ctx context.Context, from Asker, phone string) (asker, error) {
	if signed, id := parseProof(from.Proof, phone); a.cfg.Tokens.provesDevice(from.Proof, signed) {
		known := asker{key: "device " + id, known: true}
		if err := a.limit(ctx, ratelimit.Bucket{Rule: proofReads, Key: known.key}); err != nil {
			return asker{}, err
		}

		u, err := a.cfg.Store.UserByPhone(ctx, phone)
		if err != nil && !errors.Is(err, domain.ErrNotFound) {
			return asker{}, err
		}
		if a.cfg.Tokens.provesDevice(from.Proof, u) {
			return known, nil
		}
	}

	return asker{key: Customer(from.Address), network: Network(from.Address)}, nil
}

// Customer returns the addresses of one customer: an IPv4 address, or an IPv6 /56, the least that providers assign.
func Customer(addr netip.Addr) string { return prefix(addr, 32, 56) }

// Network returns the IPv4 /24 or IPv6 /48 of an address: enough to recognize an attack, and not the address of a person.
// A company has a /48.
func Network(addr netip.Addr) string { return prefix(addr, 24, 48) }

func prefix(addr netip.Addr, bits4, bits6 int) string {
	addr = addr.Unmap().WithZone("")
	bits := bits4
	if addr.Is6() {
		bits = bits6
	}

	p, err := addr.Prefix(bits)
	if err != nil || !p.IsValid() {
		return "unknown"
	}

	return p.String()
}

// proof returns the value of Login.Proof for a device of u with the given proof. A known device stays the same device.
func (a *Service) proof(present string, u domain.User) string {
	id := rand.Text()
	if a.cfg.Tokens.provesDevice(present, u) {
		_, id = parseProof(present, u.Phone)
	}
	return a.cfg.Tokens.proof(id, u)
}

// proof returns the id of a device with the id and the generation of the devices of its user, and a signature of these and
// the phone. The id is not that of deviceHash, which other clients than browsers do not have.
func (t *Tokens) proof(id string, u domain.User) string {
	return signProof(t.proofKeys.Signer(), id, u)
}

func signProof(key []byte, id string, u domain.User) string {
	text := fmt.Sprintf("%s.%d.%d", id, u.ID, u.DeviceGeneration)
	return text + "." + base64.RawURLEncoding.EncodeToString(mac(key, text+"/"+u.Phone))
}

// parseProof returns the user and the device of a proof for phone, without a verification.
func parseProof(proof, phone string) (domain.User, string) {
	fields := strings.Split(proof, ".")
	var u domain.User
	if len(fields) != 4 {
		return u, ""
	}

	u.Phone = phone

	// Otherwise provesDevice finds another text.
	u.ID, _ = strconv.ParseInt(fields[1], 10, 64)
	u.DeviceGeneration, _ = strconv.ParseInt(fields[2], 10, 64)
	return u, fields[0]
}

func (t *Tokens) provesDevice(proof string, u domain.User) bool {
	_, id := parseProof(proof, u.Phone)
	return id != "" && t.proofKeys.Any(func(key []byte) bool { return hmac.Equal([]byte(proof), []byte(signProof(key, id, u))) })
}

// askerHashes returns 128 bits for each secret, newest first, that stand for an asker in the database, which should not
// store addresses.
func (t *Tokens) askerHashes(key string) [][]byte {
	hashes := make([][]byte, len(t.askerKeys))
	for i, k := range t.askerKeys {
		hashes[i] = mac(k.Secret, key)[:16]
	}
	return hashes
}

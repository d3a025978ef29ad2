package auth

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"seckill/internal/domain"
)

// Asker is the origin of a request for a code or of a login.
type Asker struct {
	Address netip.Addr
	// Proof is what the last login or refresh on this device has returned in Login.Proof, or empty. It is valid for the
	// phone of that login, until the user logs out everywhere or deletes the account.
	Proof string
}

// asker is an identified Asker.
type asker struct {
	key     string
	network string // of a stranger
	known   bool   // a device that has logged in to the phone
}

// identify returns the asker of a code for phone: a known device, otherwise an address. It reads the user of an asker with
// a proof. Error: ErrUnavailable.
func (a *Service) identify(ctx context.Context, from Asker, phone string) (asker, error) {
	if from.Proof != "" {
		u, err := a.cfg.Store.UserByPhone(ctx, phone)
		if err != nil && !errors.Is(err, domain.ErrNotFound) {
			return asker{}, err
		}
		if id := a.cfg.Tokens.parseProof(from.Proof, u); id != "" {
			return asker{key: "device " + id, known: true}, nil
		}
	}
	return asker{key: Customer(from.Address), network: Network(from.Address)}, nil
}

// Customer returns the addresses of one customer: an IPv4 address, or an IPv6 /56, the least that providers assign.
func Customer(addr netip.Addr) string { return prefix(addr, 32, 56) }

// Network returns the IPv4 /24 or IPv6 /48 of an address: enough to recognize an attack, and not the address of a person.
// A company has a /48.
func Network(addr netip.Addr) string { return prefix(addr, 24, 48) }

// prefix returns the network of an address. All clients without an address are in one network.
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
	return a.cfg.Tokens.proof(cmp.Or(a.cfg.Tokens.parseProof(present, u), rand.Text()), u)
}

// proof returns the id of a device with a signature that binds it to a user, the phone and the generation of the user's
// devices. The id is not that of deviceHash, which other clients than browsers do not have.
func (t *Tokens) proof(id string, u domain.User) string {
	return signProof(t.proofKeys.Signer(), id, u)
}

func signProof(key []byte, id string, u domain.User) string {
	text := fmt.Sprintf("%s/%s/%d/%d", id, u.Phone, u.ID, u.DeviceGeneration)
	return id + "." + base64.RawURLEncoding.EncodeToString(mac(key, text))
}

// parseProof returns the id of a device that is known for u, otherwise "".
func (t *Tokens) parseProof(proof string, u domain.User) (id string) {
	id, _, ok := strings.Cut(proof, ".")
	if !ok || !t.proofKeys.Any(func(key []byte) bool { return hmac.Equal([]byte(proof), []byte(signProof(key, id, u))) }) {
		return ""
	}
	return id
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

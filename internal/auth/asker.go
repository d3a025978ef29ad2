package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"net/netip"
	"strings"
)

// Asker is the origin of a request for a code or of a login.
type Asker struct {
	Address netip.Addr
	// Proof is what the last login on this device has returned in Login.Proof, or empty. It is valid for the phone of
	// that login only.
	Proof string
}

// asker is an identified Asker.
type asker struct {
	key     string
	network string // of a stranger
	known   bool   // a device that has logged in to the phone
}

// identify returns the asker of a code for phone: a known device, otherwise an address.
func (a *Service) identify(from Asker, phone string) asker {
	if id := a.cfg.Tokens.parseProof(from.Proof, phone); id != "" {
		return asker{key: "device " + id, known: true}
	}
	return asker{key: Customer(from.Address), network: Network(from.Address)}
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

// proof returns the value of Login.Proof after a login to phone. A known device stays the same device.
func (a *Service) proof(from Asker, phone string) string {
	if a.cfg.Tokens.parseProof(from.Proof, phone) != "" {
		return from.Proof
	}
	return a.cfg.Tokens.proof(rand.Text(), phone)
}

// proof returns the id of a device with a signature that binds it to a phone. The id is not that of deviceHash, which
// other clients than browsers do not have.
func (t *Tokens) proof(id, phone string) string { return signProof(t.proofKeys.Signer(), id, phone) }

func signProof(key []byte, id, phone string) string {
	return id + "." + base64.RawURLEncoding.EncodeToString(mac(key, id+"/"+phone))
}

// parseProof returns the id of a device that has logged in to phone, otherwise "".
func (t *Tokens) parseProof(proof, phone string) (id string) {
	id, _, ok := strings.Cut(proof, ".")
	if !ok || !t.proofKeys.Any(func(key []byte) bool { return hmac.Equal([]byte(proof), []byte(signProof(key, id, phone))) }) {
		return ""
	}
	return id
}

// askerHash returns 128 bits that stand for an asker in the database, which should not store addresses.
func (t *Tokens) askerHash(key string) []byte { return mac(t.askerKey, key)[:16] }

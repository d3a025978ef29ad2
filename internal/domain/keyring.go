package domain

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// Keyring holds the secrets of one purpose, newest first. The first signs and all verify, so that a secret can be
// replaced without voiding what the previous one has signed. A Keyring is immutable.
type Keyring []Key

// Key is a secret and its id, which tells secrets apart and reveals nothing about them.
type Key struct {
	ID     uint32
	Secret []byte
}

// NewKeyring returns a keyring of secrets, newest first.
func NewKeyring(secrets ...[]byte) Keyring {
	keys := make(Keyring, len(secrets))
	for i, s := range secrets {
		keys[i] = Key{ID: binary.BigEndian.Uint32(DeriveSecret(s, "key id")), Secret: s}
	}
	return keys
}

// ParseKeyring returns the keyring of a text with secrets, newest first, separated by commas or line breaks. Spaces
// around a secret are removed. The keyring is empty if the text has no secret.
func ParseKeyring(text string) Keyring {
	var secrets [][]byte
	for s := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }) {
		s = strings.TrimSpace(s)
		if s != "" {
			secrets = append(secrets, []byte(s))
		}
	}
	return NewKeyring(secrets...)
}

// Derive returns the keyring for one purpose, with the secret derived from each key.
func (k Keyring) Derive(purpose string) Keyring {
	secrets := make([][]byte, len(k))
	for i, key := range k {
		secrets[i] = DeriveSecret(key.Secret, purpose)
	}
	return NewKeyring(secrets...)
}

// Signer returns the secret that signs. The keyring must not be empty.
func (k Keyring) Signer() []byte { return k[0].Secret }

// Any reports whether verify accepts one of the secrets. It tries the newest first.
func (k Keyring) Any(verify func(secret []byte) bool) bool {
	for _, key := range k {
		if verify(key.Secret) {
			return true
		}
	}
	return false
}

// DeriveSecret derives the secret for one purpose from a master secret. A leaked one reveals neither the master secret
// nor those for other purposes.
func DeriveSecret(secret []byte, purpose string) []byte {
	return MAC(secret, []byte("seckill "+purpose))
}

// MAC returns the HMAC-SHA-256 of a message.
func MAC(secret, message []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write(message)
	return mac.Sum(nil)
}

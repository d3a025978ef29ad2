package env

import (
	"bytes"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// SolveChallenge returns the solution of a challenge in the form of ALTCHA v2, with PBKDF2 and SHA-256.
func SolveChallenge(challenge json.RawMessage) (string, error) {
	var c struct {
		Parameters struct {
			Algorithm, Nonce, Salt, KeyPrefix string
			Cost, KeyLength                   int
		}
	}
	if err := json.Unmarshal(challenge, &c); err != nil {
		return "", fmt.Errorf("decode the challenge: %w", err)
	}

	p := c.Parameters
	if p.Algorithm != "PBKDF2/SHA-256" {
		return "", fmt.Errorf("the challenge demands %q, which is not supported", p.Algorithm)
	}

	nonce, err1 := hex.DecodeString(p.Nonce)
	salt, err2 := hex.DecodeString(p.Salt)
	prefix, err3 := hex.DecodeString(p.KeyPrefix)
	if err := errors.Join(err1, err2, err3); err != nil {
		return "", fmt.Errorf("decode the challenge: %w", err)
	}

	for counter := range uint32(math.MaxUint32) {
		password := binary.BigEndian.AppendUint32(nonce[:len(nonce):len(nonce)], counter)
		key, err := pbkdf2.Key(sha256.New, string(password), salt, p.Cost, p.KeyLength)
		if err != nil {
			return "", fmt.Errorf("derive a key: %w", err)
		}
		if !bytes.HasPrefix(key, prefix) {
			continue
		}

		text, err := json.Marshal(map[string]any{
			"challenge": challenge,
			"solution":  map[string]any{"counter": counter, "derivedKey": hex.EncodeToString(key)},
		})

		return base64.StdEncoding.EncodeToString(text), err
	}

	return "", errors.New("the challenge has no solution")
}

package entry

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/semaphore"

	"seckill/internal/domain"
	"seckill/internal/kit/cache"
)

// The work that a challenge demands. The counter of the key to be found is uniform below maxCounter, so a client
// derives 250 keys on average and never more than 500: a quarter of a second of one core of a server or a laptop, and
// about a second on a phone of a quarter of that speed. With 5,000 iterations a key, browsers (1,100 keys a second and
// core in Chromium) nearly keep up with native programs (1,400 in Go); a plain SHA-256 puzzle favours programs 95 to 1.
const (
	algorithm    = "PBKDF2/SHA-256"
	cost         = 5_000 // iterations of one derivation, about 0.7 ms of a core
	maxCounter   = 500
	keyLength    = 32 // bytes
	prefixLength = 16 // bytes
	nonceLength  = 16 // bytes, also of the salt
)

const (
	// challengeLife is the time to solve a challenge and to use the solution.
	challengeLife = 120 * time.Second
	// maxSolution bounds the text of a solution, in bytes. Its regular length is about 800.
	maxSolution = 4096
	// challengeReuse is how long a user gets the same challenge for a sale, unless the user solves it. The storefront
	// counts on the 100 s that are left at the end.
	challengeReuse = 20 * time.Second
	// maxReused bounds the challenges that are kept for it, of less than 1 KiB each.
	maxReused = 16_384
	// maxDerivations bounds the challenges that are being made or wait for it: about 0.2 s of one core.
	maxDerivations = 256
)

// Work is a HumanProof that costs a client some computing time: the PBKDF2 proof of work of ALTCHA v2. The client tries
// counters from 0 on until PBKDF2(nonce || counter, salt) begins with the key prefix.
//
// The server derives the key when it makes the challenge, not when it checks the solution: challenges are requested in
// the minutes before a sale, solutions arrive all at once when it starts. (ALTCHA calls this the deterministic mode.)
// Any server checks any solution: a signature covers the parameters, the user and the voucher, and a MAC of the key is
// part of them. The official library is not used, because the Go module proxy does not serve it.
//
// Those who flood the server with entries delay the others by one derivation for each sale: a user gets the same challenge
// again for challengeReuse.
//
// Work is safe for concurrent use.
type Work struct {
	// challenges sign challenges, and keys the keys to be found.
	challenges, keys domain.Keyring
	now              func() time.Time

	// given has the newest challenge of each user and sale.
	given *cache.Cache[domain.SaleUser, givenChallenge]
	// admits are the challenges that are being made or wait for it.
	admits *semaphore.Weighted
	// running are the derivations: on half of the processors, so that purchases keep the others.
	running *semaphore.Weighted
}

// givenChallenge is a challenge that its user gets again until a time.
type givenChallenge struct {
	until time.Time
	nonce string
	text  json.RawMessage
}

// NewWork returns a Work that signs with the first secret and accepts all of them.
func NewWork(secrets domain.Keyring, now func() time.Time) *Work {
	return &Work{
		challenges: secrets,
		keys:       secrets.Derive("keys of challenges"),
		now:        now,
		given:      cache.New[domain.SaleUser](cache.Options[givenChallenge]{MaxEntries: maxReused}),
		admits:     semaphore.NewWeighted(maxDerivations),
		running:    semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)/2))),
	}
}

// The JSON forms of ALTCHA v2. The fields of parameters and their data are in alphabetical order, as in the canonical
// form that is signed. Bytes are in hex.
type (
	challenge struct {
		Parameters parameters `json:"parameters"`
		Signature  string     `json:"signature"`
	}
	parameters struct {
		Algorithm string        `json:"algorithm"`
		Cost      int           `json:"cost"`
		Data      challengeData `json:"data"`
		ExpiresAt int64         `json:"expiresAt"` // Unix seconds
		KeyLength int           `json:"keyLength"`
		KeyPrefix string        `json:"keyPrefix"`
		Nonce     string        `json:"nonce"`
		Salt      string        `json:"salt"`
	}
	challengeData struct {
		// KeySignature is the keyMAC of the key to be found.
		KeySignature string `json:"keySignature"`
		User         string `json:"user"`
		Voucher      string `json:"voucher"`
	}
	payload struct {
		Challenge challenge `json:"challenge"`
		Solution  struct {
			Counter    uint32 `json:"counter"`
			DerivedKey string `json:"derivedKey"`
		} `json:"solution"`
	}
)

// Challenge implements HumanProof. Error: domain.ErrOverloaded. The result must not be changed: others share it.
func (w *Work) Challenge(ctx context.Context, userID, voucherID int64) (json.RawMessage, error) {
	to := domain.SaleUser{UserID: userID, VoucherID: voucherID}
	if c, ok := w.given.Get(to); ok && !w.now().Before(c.until) {
		w.given.Delete(to)
	}

	c, err := w.given.Load(ctx, to, func(ctx context.Context) (givenChallenge, error) {
		// Other requests of the user share the wait, so it does not end with this one.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), joinTimeout)
		defer cancel()
		return w.give(ctx, to)
	})
	if err != nil && errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", domain.ErrOverloaded, err)
	}

	return c.text, err
}

// solved makes the next request of a user lead to another challenge, because a solution works once.
func (w *Work) solved(by domain.SaleUser, nonce string) {
	if c, ok := w.given.Get(by); ok && c.nonce == nonce {
		w.given.Delete(by)
	}
}

// give makes a challenge when a processor is free for it. Error: domain.ErrOverloaded, also if ctx ends first.
func (w *Work) give(ctx context.Context, to domain.SaleUser) (givenChallenge, error) {
	if !w.admits.TryAcquire(1) {
		return givenChallenge{}, domain.ErrOverloaded
	}
	defer w.admits.Release(1)

	if w.running.Acquire(ctx, 1) != nil {
		return givenChallenge{}, domain.ErrOverloaded
	}
	defer w.running.Release(1)

	return w.newChallenge(to)
}

func (w *Work) newChallenge(to domain.SaleUser) (givenChallenge, error) {
	// The source of random numbers never fails.
	var nonce, salt [nonceLength]byte
	_, _ = rand.Read(nonce[:])
	_, _ = rand.Read(salt[:])
	n, _ := rand.Int(rand.Reader, big.NewInt(maxCounter))
	counter := uint32(n.Uint64()) //nolint:gosec // less than maxCounter
	key, err := deriveKey(nonce[:], salt[:], counter)
	if err != nil {
		return givenChallenge{}, err
	}

	now := w.now()
	p := parameters{
		Algorithm: algorithm,
		Cost:      cost,
		Data: challengeData{
			KeySignature: hex.EncodeToString(keyMAC(w.keys.Signer(), counter, key)),
			User:         strconv.FormatInt(to.UserID, 10),
			Voucher:      strconv.FormatInt(to.VoucherID, 10),
		},
		ExpiresAt: now.Add(challengeLife).Unix(),
		KeyLength: keyLength,
		KeyPrefix: hex.EncodeToString(key[:prefixLength]),
		Nonce:     hex.EncodeToString(nonce[:]),
		Salt:      hex.EncodeToString(salt[:]),
	}

	signature := hex.EncodeToString(domain.MAC(w.challenges.Signer(), signedText(&p)))
	text, err := json.Marshal(challenge{Parameters: p, Signature: signature})
	return givenChallenge{
		until: now.Add(challengeReuse),
		nonce: p.Nonce,
		text:  text,
	}, err
}

// The reasons why a solution is refused.
var (
	errNoSolution    = errors.New("the request has no solution")
	errMalformed     = errors.New("the solution is malformed")
	errForged        = errors.New("the challenge of the solution is not genuine")
	errExpired       = errors.New("the solution has expired")
	errOtherUser     = errors.New("the solution belongs to another user")
	errOtherVoucher  = errors.New("the solution belongs to another sale")
	errWrongSolution = errors.New("the solution is wrong")
)

// Verify implements HumanProof. It costs two HMACs, with several secrets a few more, and no derivation. The id is the nonce of the challenge.
func (w *Work) Verify(_ context.Context, userID, voucherID int64, solution string) (string, error) {
	switch {
	case solution == "":
		return "", errNoSolution
	case len(solution) > maxSolution:
		return "", errMalformed
	}

	text, err := base64.StdEncoding.DecodeString(solution)
	if err != nil {
		return "", errMalformed
	}

	var in payload
	if err := json.Unmarshal(text, &in); err != nil {
		return "", errMalformed
	}

	p := &in.Challenge.Parameters
	signed := signedText(p)
	genuine := w.challenges.Any(func(secret []byte) bool {
		return equalHex(in.Challenge.Signature, domain.MAC(secret, signed))
	})

	switch {
	case !genuine:
		return "", errForged
	case w.now().Unix() >= p.ExpiresAt:
		return "", errExpired
	case p.Data.User != strconv.FormatInt(userID, 10):
		return "", errOtherUser
	case p.Data.Voucher != strconv.FormatInt(voucherID, 10):
		return "", errOtherVoucher
	}

	key, err := hex.DecodeString(in.Solution.DerivedKey)
	correct := w.keys.Any(func(secret []byte) bool {
		return equalHex(p.Data.KeySignature, keyMAC(secret, in.Solution.Counter, key))
	})
	if err != nil || !correct {
		return "", errWrongSolution
	}

	w.solved(domain.SaleUser{UserID: userID, VoucherID: voucherID}, p.Nonce)
	return p.Nonce, nil
}

func deriveKey(nonce, salt []byte, counter uint32) ([]byte, error) {
	password := binary.BigEndian.AppendUint32(nonce[:len(nonce):len(nonce)], counter)
	key, err := pbkdf2.Key(sha256.New, string(password), salt, cost, keyLength)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	return key, nil
}

// signedText returns the canonical JSON of the parameters, whose HMAC is the signature, as in every library of ALTCHA.
func signedText(p *parameters) []byte {
	// Texts and numbers always have a JSON form.
	text, _ := json.Marshal(p)
	return text
}

func keyMAC(secret []byte, counter uint32, key []byte) []byte {
	return domain.MAC(secret, append(binary.BigEndian.AppendUint32(nil, counter), key...))
}

func equalHex(given string, want []byte) bool {
	raw, err := hex.DecodeString(given)
	return err == nil && hmac.Equal(raw, want)
}

package auth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/ratelimit"
)

// The rules for login codes. Their number is limited by codeBuckets.
const (
	codeTTL = 2 * time.Minute
	// codeTries is the number of guesses at a code, even without a Quota. Guesses without a login id are counted
	// separately: a stranger at the owner's address can use up those, but not the guesses of the owner's login id.
	// Strangers can have 20 codes of a phone a day, and so a chance of 1 in 5,000.
	codeTries = 5
	// resendAfter is the time after which a client offers to send another code. From the fourth code on, an earlier
	// request is refused.
	resendAfter = time.Minute
)

// CodeSender delivers a login code, for example by SMS, which is valid until expires. After an error the code is void.
type CodeSender func(ctx context.Context, phone, code string, expires time.Time) error

// LoginRequest is one request for a login code. A phone can have several at a time: the code of each is valid only for
// the client that made it, so a stranger can neither use up nor replace the code of the phone's owner.
type LoginRequest struct {
	// At least 128 random bits, known to the client only.
	ID    string `gorm:"column:login_id;primaryKey"`
	Phone string
	Asker []byte // see Tokens.askerHashes
	// The hash of the code; empty after use.
	Hash []byte `gorm:"column:code_hash"`
	// Guesses with the ID.
	Attempts          int
	AttemptsWithoutID int
	CreatedAt         time.Time
	ExpiresAt         time.Time
}

// Guess identifies the login request to which an entered code belongs: that with LoginID and Phone or, if LoginID is
// empty, the newest request of Phone and one of Askers that is unused and has not expired at Now.
type Guess struct {
	LoginID string
	Phone   string
	// The hashes of one asker, see Tokens.askerHashes.
	Askers [][]byte
	Now    time.Time
}

// SentCode is the result of SendCode.
type SentCode struct {
	LoginID string
	// For use in demo mode only.
	Code        string
	ExpiresIn   time.Duration
	ResendAfter time.Duration
}

// SendCode sends a login code to a phone. Codes that were sent before stay valid. It does the same work whether or not
// the phone has an account. Errors: *InvalidError, *RateLimitedError, ErrUnavailable.
func (a *Service) SendCode(ctx context.Context, phone string, from Asker) (SentCode, error) {
	phone, country, err := a.cfg.Phones.Parse(phone)
	if err != nil {
		return SentCode{}, err
	}

	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		return SentCode{}, fmt.Errorf("generate login code: %w", err)
	}

	code := fmt.Sprintf("%06d", n)
	asker, err := a.identify(ctx, from, phone)
	if err != nil {
		return SentCode{}, err
	}

	// One of both is given back: a code that was not sent counts as a refusal only.
	counted := codeBuckets(phone, country, asker)
	refusal := ratelimit.Bucket{Rule: codeRefusals, Key: asker.key}
	if err := a.limit(ctx, append(counted, refusal)...); err != nil {
		return SentCode{}, err
	}

	now := domain.Moment(a.cfg.Now())
	r := LoginRequest{
		ID:        rand.Text(),
		Phone:     phone,
		Asker:     a.cfg.Tokens.askerHashes(asker.key)[0],
		CreatedAt: now,
		ExpiresAt: now.Add(codeTTL),
	}
	r.Hash = a.cfg.Tokens.codeHash(r.ID, code)

	if err := a.cfg.Store.AddLoginRequest(ctx, r); err != nil {
		a.giveBack(ctx, counted...)
		return SentCode{}, err
	}

	// A client that disconnects neither stops the message nor gets its quota back.
	err = a.cfg.Sender(context.WithoutCancel(ctx), phone, code, r.ExpiresAt)
	var slow net.Error
	switch {
	case errors.As(err, &slow) && slow.Timeout():
		// The message may be on its way.
		return SentCode{}, fmt.Errorf("%w: send login code: %w", domain.ErrUnavailable, err)
	case err != nil:
		a.giveBack(ctx, counted...)
		return SentCode{}, errors.Join(fmt.Errorf("%w: send login code: %w", domain.ErrUnavailable, err), a.dropRequest(ctx, r.ID))
	}

	a.giveBack(ctx, refusal)
	return SentCode{
		LoginID:     r.ID,
		Code:        code,
		ExpiresIn:   codeTTL,
		ResendAfter: resendAfter,
	}, nil
}

func (a *Service) dropRequest(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return a.cfg.Store.DeleteLoginRequest(ctx, id)
}

// Credentials are what a user enters to log in, and where.
type Credentials struct {
	Phone, Code string
	// What the user's authenticator app shows; empty if there is none.
	TOTP string
	// May be empty, see Guess.
	LoginID string
	// The id of the browser; empty for clients that keep the refresh token themselves.
	Device string
	From   Asker
}

// Login exchanges a login code for a session, which is bound to the browser with the id c.Device. The first login of a
// phone creates its user. A user without a second factor whose role needs one is logged in as a buyer.
//
// Errors: *InvalidError, *RateLimitedError, ErrWrongCode, ErrSecondFactorLost, ErrTOTPRequired and ErrWrongTOTP (with the
// User), ErrUnavailable.
func (a *Service) Login(ctx context.Context, c Credentials) (Login, error) {
	confirm := func(u domain.User, f *SecondFactor) (bool, error) { return a.confirm(u, f, c.TOTP) }
	u, s, err := a.openSession(ctx, c, sessionTTL, confirm)
	if err != nil {
		return Login{User: u}, err
	}
	l, err := a.login(u, s.ID, s.Generation, s.SecondFactor)
	l.Proof = a.proof(c.From.Proof, u)
	return l, err
}

func (a *Service) confirm(u domain.User, f *SecondFactor, totp string) (bool, error) {
	role := a.configuredRole(u)
	switch {
	case a.cfg.SecondFactors == nil || !role.NeedsSecondFactor():
		return false, nil
	case f == nil:
		a.cfg.Log.Warn("a user without a second factor is logged in as a buyer: run seckill admin enroll", "user_id", u.ID, "role", role)
		return false, nil
	}

	err := a.cfg.SecondFactors.check(u, f, totp, a.cfg.Now())
	if errors.Is(err, domain.ErrSecondFactorLost) {
		a.cfg.Log.Warn("no secret decrypts the second factor of a user: run seckill admin enroll", "user_id", u.ID, "role", role)
	}

	return err == nil, err
}

func (a *Service) openSession(ctx context.Context, c Credentials, ttl time.Duration, confirm ConfirmFunc) (domain.User, Session, error) {
	phone, _, err := a.cfg.Phones.Parse(c.Phone)
	if err != nil {
		return domain.User{}, Session{}, err
	}

	asker, err := a.identify(ctx, c.From, phone)
	if err != nil {
		return domain.User{}, Session{}, err
	}

	if err := a.limit(ctx, ratelimit.Bucket{Rule: logins, Key: asker.key}); err != nil {
		return domain.User{}, Session{}, err
	}

	code := domain.TypedCode(c.Code)
	now := domain.Moment(a.cfg.Now())
	s := Session{
		ID:         NewSessionID(),
		Generation: 1,
		CreatedAt:  now,
		ExpiresAt:  now.Add(ttl),
		DeviceHash: deviceHash(c.Device),
	}

	g := Guess{
		LoginID: c.LoginID,
		Phone:   phone,
		Askers:  a.cfg.Tokens.askerHashes(asker.key),
		Now:     now,
	}

	u, err := a.cfg.Store.OpenSession(ctx, g, newUser(phone, domain.RoleBuyer, now), s, func(r *LoginRequest) bool {
		return a.cfg.Tokens.checkCode(r, g, code)
	}, func(u domain.User, f *SecondFactor) (confirmed bool, err error) {
		s.SecondFactor, err = confirm(u, f)
		return s.SecondFactor, err
	})

	u.Role = a.role(u, s.SecondFactor)
	return u, s, err
}

// checkCode reports whether a guess of the code is correct, and counts it. A correct guess uses up the code.
func (t *Tokens) checkCode(r *LoginRequest, g Guess, code string) bool {
	attempts := &r.Attempts
	if g.LoginID == "" {
		attempts = &r.AttemptsWithoutID
	}

	if len(r.Hash) == 0 || *attempts >= codeTries || !g.Now.Before(r.ExpiresAt) {
		return false
	}

	*attempts++
	if !t.isCode(r.Hash, r.ID, code) {
		return false
	}

	r.Hash = nil
	return true
}

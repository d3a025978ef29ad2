package entry

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"seckill/internal/domain"
)

// HumanProof makes an entry cost something that programs cannot give in bulk: computing time (Work), or an answer to a
// hosted captcha. Implementations are safe for concurrent use.
type HumanProof interface {
	// Challenge returns what a user has to solve to enter the sale of a voucher, as a JSON object, which must not be
	// changed. It may be the same as before until Verify has accepted its solution. Errors: domain.ErrOverloaded,
	// domain.ErrUnavailable.
	Challenge(ctx context.Context, userID, voucherID int64) (json.RawMessage, error)
	// Verify checks a solution of the user for the voucher, and returns an id by which it can be used up. Any error but
	// domain.ErrOverloaded and domain.ErrUnavailable is the reason why the solution is refused.
	Verify(ctx context.Context, userID, voucherID int64, solution string) (id string, err error)
}

// UsedSolutions remembers the solutions that are used up, for all servers. Errors: domain.ErrUnavailable.
type UsedSolutions interface {
	// UseUp reports whether the id was not used up before, and remembers it for keep.
	UseUp(ctx context.Context, id string, keep time.Duration) (bool, error)
}

// keepUsed is how long a used solution is remembered: long enough for a server whose clock is behind, or is set back, by a
// quarter of an hour. By its clock the solution has not expired.
const keepUsed = challengeLife + 15*time.Minute

var errUsed = errors.New("the solution was used before")

// proof is the verified solution of a user for a sale; empty if the sale demands none.
type proof struct {
	service           *Service
	userID, voucherID int64
	id                string
}

// prove verifies the solution if the sale demands one. Errors: *domain.ChallengeRequiredError, domain.ErrOverloaded,
// domain.ErrUnavailable.
func (s *Service) prove(ctx context.Context, userID int64, v *domain.Voucher, solution string) (proof, error) {
	if !v.Sale.Entry.Challenge {
		return proof{}, nil
	}

	id, err := s.Human.Verify(ctx, userID, v.ID, solution)
	p := proof{
		service:   s,
		userID:    userID,
		voucherID: v.ID,
		id:        id,
	}
	if err == nil || errors.Is(err, domain.ErrOverloaded) || errors.Is(err, domain.ErrUnavailable) {
		return p, err
	}

	return p, p.refuse(ctx, err)
}

func (p proof) useUp(ctx context.Context) error {
	if p.id == "" {
		return nil
	}
	first, err := p.service.Solutions.UseUp(ctx, p.id, keepUsed)
	if err != nil || first {
		return err
	}
	return p.refuse(ctx, errUsed)
}

func (p proof) refuse(ctx context.Context, reason error) error {
	c, err := p.service.Human.Challenge(ctx, p.userID, p.voucherID)
	if err != nil {
		return err
	}
	return &domain.ChallengeRequiredError{Reason: reason.Error(), Challenge: c}
}

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

// prove verifies the solution if the sale demands one, and returns its id; otherwise none. Errors:
// *domain.ChallengeRequiredError, domain.ErrOverloaded, domain.ErrUnavailable.
func (s *Service) prove(ctx context.Context, userID int64, v *domain.Voucher, solution string) (string, error) {
	if !v.Sale.Entry.Challenge {
		return "", nil
	}

	id, err := s.Human.Verify(ctx, userID, v.ID, solution)
	if err == nil || errors.Is(err, domain.ErrOverloaded) || errors.Is(err, domain.ErrUnavailable) {
		return id, err
	}

	return "", s.challenge(ctx, userID, v.ID, err)
}

// useUp uses up the solution with an id from prove. Errors: those of prove.
func (s *Service) useUp(ctx context.Context, userID, voucherID int64, id string) error {
	if id == "" {
		return nil
	}
	first, err := s.Solutions.UseUp(ctx, id, keepUsed)
	if err != nil || first {
		return err
	}
	return s.challenge(ctx, userID, voucherID, errUsed)
}

func (s *Service) challenge(ctx context.Context, userID, voucherID int64, reason error) error {
	c, err := s.Human.Challenge(ctx, userID, voucherID)
	if err != nil {
		return err
	}
	return &domain.ChallengeRequiredError{Reason: reason.Error(), Challenge: c}
}

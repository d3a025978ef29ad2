package app

import (
	"context"
	"fmt"
	"time"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/repo"
)

// NewSigner returns a signer with the same secrets as a server of this configuration.
func NewSigner(cfg Config) (*auth.Tokens, error) {
	secrets, err := SigningSecrets(cfg)
	if err != nil {
		return nil, err
	}
	return newTokens(cfg, secrets, time.Now)
}

func newTokens(cfg Config, secrets domain.Keyring, now func() time.Time) (*auth.Tokens, error) {
	if cfg.IsDemo() {
		return auth.NewDemoTokens(secrets, now)
	}
	return auth.NewTokens(secrets, now)
}

// Buyer is a seeded user with an access token.
type Buyer struct {
	ID    int64
	Token string
}

// SeedBuyers stores n users, each with a session, and signs an access token for each. Sessions and tokens are valid for
// auth.SeedTTL.
func SeedBuyers(ctx context.Context, store *repo.Store, tokens *auth.Tokens, n int) ([]Buyer, error) {
	now := domain.Moment(time.Now())
	ids, err := store.SeedUsers(ctx, n, now, now.Add(auth.SeedTTL))
	if err != nil {
		return nil, err
	}

	buyers := make([]Buyer, len(ids))
	for i, id := range ids {
		token, err := tokens.Access(id, auth.SeedTTL)
		if err != nil {
			return nil, fmt.Errorf("sign a token: %w", err)
		}
		buyers[i] = Buyer{ID: id.UserID, Token: token}
	}

	return buyers, nil
}

package app

import (
	"context"
	"errors"
	"fmt"
	"seckill/internal/auth"
	"seckill/internal/repo"
	"seckill/internal/service"
	"time"
)

// OpenForSeeding opens the database, brings its schema up to date, and makes the signer that the server uses.
func OpenForSeeding(e *Env) (*repo.Store, *auth.Tokens, error) {
	signer, err := NewSigner(e.Config)
	if err != nil {
		return nil, nil, err
	}
	store, err := OpenStore(e.Config)
	if err != nil {
		return nil, nil, err
	}
	if err := Await(e, "the database", store.Ping); err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	if err := PrepareDatabase(e, store); err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return store, signer, nil
}

// newSigner makes tokens with the secret of the server that is configured here.
func NewSigner(cfg Config) (*auth.Tokens, error) {
	secret, err := SigningSecret(cfg)
	if err != nil {
		return nil, err
	}
	return auth.NewTokens(secret, time.Now)
}

// buyer is a seeded user with a token.
type Buyer struct {
	ID    int64
	Token string
}

// seedTokens makes n users with a session and a token each.
func SeedBuyers(ctx context.Context, store *repo.Store, tokens *auth.Tokens, n int) ([]Buyer, error) {
	now := service.Moment(time.Now())
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

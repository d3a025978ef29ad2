package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"seckill/internal/auth"
	"seckill/internal/repo"
	"seckill/internal/service"
)

// errNoSeeding keeps long-lived tokens out of systems that are not for playing.
var errNoSeeding = errors.New("seeding makes tokens that work for 24 h; outside the demo (SECKILL_DEMO) it needs seed --force")

// maxSeedUsers is how many numbers the phones of load-test users have room for, generously rounded down.
const maxSeedUsers = 10_000_000

type seedCmd struct {
	Users  int    `default:"1000" help:"How many users."`
	Tokens string `required:"" placeholder:"FILE" help:"Where to write lines of user_id,access_token (- for the standard output)."`
	Force  bool   `help:"Make tokens that work for 24 h although this is not a demo."`
}

// Run makes the users, also beside a running server.
func (s seedCmd) Run(e *Env) (err error) {
	if s.Users < 1 || s.Users > maxSeedUsers {
		return fmt.Errorf("--users must be between 1 and %d", maxSeedUsers)
	}
	if !e.Config.IsDemo() && !s.Force {
		return errNoSeeding
	}
	store, tokens, err := openForSeeding(e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	buyers, err := seedTokens(e.Ctx, store, tokens, s.Users)
	if err != nil {
		return err
	}
	if s.Tokens == "-" {
		return writeTokens(e.Out, buyers)
	}
	f, err := os.OpenFile(s.Tokens, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("tokens file: %w", err)
	}
	if err := f.Chmod(0o600); err != nil { // also when the file was there before
		return errors.Join(fmt.Errorf("tokens file: %w", err), f.Close())
	}
	if err := errors.Join(writeTokens(f, buyers), f.Close()); err != nil {
		return fmt.Errorf("tokens file: %w", err)
	}
	fmt.Fprintf(e.Out, "%d users, their tokens in %s work for %s\n", len(buyers), s.Tokens, auth.SeedTTL)
	return nil
}

// openForSeeding opens the database, brings its schema up to date, and makes the signer that the server uses.
func openForSeeding(e *Env) (*repo.Store, *auth.Tokens, error) {
	signer, err := newSigner(e.Config)
	if err != nil {
		return nil, nil, err
	}
	store, err := openStore(e.Config)
	if err != nil {
		return nil, nil, err
	}
	if err := await(e, "the database", store.Ping); err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	if err := prepareDatabase(e, store); err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return store, signer, nil
}

// newSigner makes tokens with the secret of the server that is configured here.
func newSigner(cfg Config) (*auth.Tokens, error) {
	secret, err := signingSecret(cfg)
	if err != nil {
		return nil, err
	}
	return auth.NewTokens(secret, time.Now)
}

// buyer is a seeded user with a token.
type buyer struct {
	id    int64
	token string
}

// seedTokens makes n users with a session and a token each.
func seedTokens(ctx context.Context, store *repo.Store, tokens *auth.Tokens, n int) ([]buyer, error) {
	now := service.Moment(time.Now())
	ids, err := store.SeedUsers(ctx, n, now, now.Add(auth.SeedTTL))
	if err != nil {
		return nil, err
	}
	buyers := make([]buyer, len(ids))
	for i, id := range ids {
		token, err := tokens.Access(id, auth.SeedTTL)
		if err != nil {
			return nil, fmt.Errorf("sign a token: %w", err)
		}
		buyers[i] = buyer{id: id.UserID, token: token}
	}
	return buyers, nil
}

func writeTokens(w io.Writer, buyers []buyer) error {
	buf := bufio.NewWriter(w)
	for _, b := range buyers {
		fmt.Fprintf(buf, "%d,%s\n", b.id, b.token)
	}
	return buf.Flush()
}

package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"seckill/internal/app"
	"seckill/internal/auth"
	"seckill/internal/domain"
)

// errNoSeeding prevents long-lived tokens on production systems.
var errNoSeeding = errors.New("seeding creates tokens that are valid for 24 h; outside demo mode (SECKILL_DEMO) it requires seed --force")

// maxSeedUsers stays below the number of phone numbers reserved for load tests.
const maxSeedUsers = 10_000_000

type seedCmd struct {
	Users  int    `default:"1000" help:"Number of users (${default})."`
	Tokens string `required:"" placeholder:"FILE" help:"Output file for lines of user_id,access_token (- for standard output)."`
	Force  bool   `help:"Create tokens that are valid for 24 h even outside demo mode."`
}

// Run creates the users. A server may be running.
func (s seedCmd) Run(e *app.Env) error {
	if s.Users < 1 || s.Users > maxSeedUsers {
		return fmt.Errorf("--users must be between 1 and %d", maxSeedUsers)
	}
	if !e.Config.IsDemo() && !s.Force {
		return errNoSeeding
	}

	signer, err := app.NewSigner(e.Config)
	if err != nil {
		return err
	}

	store, err := app.OpenPrepared(e)
	if err != nil {
		return err
	}
	defer store.Close()

	var buyers []app.Buyer
	seed := func() error {
		buyers, err = app.SeedBuyers(e.Ctx, store, signer, s.Users)
		return err
	}

	if e.Config.IsDemo() {
		err = seed()
	} else {
		err = audited(e.Ctx, store, "seed --force", fmt.Sprintf("%d users", s.Users), seed)
	}

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

	// Even if the file existed before.
	if err := f.Chmod(0o600); err != nil {
		return errors.Join(fmt.Errorf("tokens file: %w", err), f.Close())
	}
	if err := errors.Join(writeTokens(f, buyers), f.Close()); err != nil {
		return fmt.Errorf("tokens file: %w", err)
	}

	fmt.Fprintf(e.Out, "%s created; their tokens in %s are valid for %.0f hours\n",
		domain.Count(len(buyers), "user"), s.Tokens, auth.SeedTTL.Hours())
	return nil
}

func writeTokens(w io.Writer, buyers []app.Buyer) error {
	buf := bufio.NewWriter(w)
	for _, b := range buyers {
		fmt.Fprintf(buf, "%d,%s\n", b.ID, b.Token)
	}
	return buf.Flush()
}

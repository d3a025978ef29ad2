package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"seckill/internal/app"
	"seckill/internal/auth"
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
func (s seedCmd) Run(e *app.Env) (err error) {
	if s.Users < 1 || s.Users > maxSeedUsers {
		return fmt.Errorf("--users must be between 1 and %d", maxSeedUsers)
	}
	if !e.Config.IsDemo() && !s.Force {
		return errNoSeeding
	}
	store, tokens, err := app.OpenForSeeding(e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	buyers, err := app.SeedBuyers(e.Ctx, store, tokens, s.Users)
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

func writeTokens(w io.Writer, buyers []app.Buyer) error {
	buf := bufio.NewWriter(w)
	for _, b := range buyers {
		fmt.Fprintf(buf, "%d,%s\n", b.ID, b.Token)
	}
	return buf.Flush()
}

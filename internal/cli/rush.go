package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/sync/errgroup"

	"seckill/internal/app"
	"seckill/internal/auth"
	"seckill/internal/rush"
	"seckill/internal/service"
)

type rushCmd struct {
	URL        string `default:"http://127.0.0.1:8080" help:"The server."`
	Buyers     int    `default:"1000" help:"How many buyers."`
	Stock      int64  `default:"100" help:"Units of the sale."`
	Parallel   int    `default:"256" help:"Buyers at once."`
	Tokens     string `placeholder:"FILE" help:"Buyers' tokens as seed writes them. Default: users are seeded if the server's database is configured here, else logged in through its demo mode."`
	AdminToken string `placeholder:"TOKEN" help:"Access token of an admin, who creates the sale. Default: as for the buyers."`
}

// Run creates the sale, sends the crowd and judges the outcome.
func (r rushCmd) Run(e *app.Env) error {
	if r.Buyers < 1 || r.Buyers > 1_000_000 || r.Stock < 0 || r.Parallel < 1 || r.Parallel > 10_000 {
		return errors.New("--buyers must be between 1 and 1000000, --stock not negative, --parallel between 1 and 10000")
	}
	client, err := rush.NewClient(r.URL, r.Parallel)
	if err != nil {
		return err
	}
	defer client.Close()
	admin, tokens, err := r.credentials(e, client)
	if err != nil {
		return err
	}
	sale, err := client.CreateSale(e.Ctx, admin, r.Stock)
	if err != nil {
		return fmt.Errorf("create the sale: %w", err)
	}
	fmt.Fprintf(e.Out, "sale %s: %d units, %d buyers, %d at once\n", sale.ID, r.Stock, len(tokens), r.Parallel)
	crowd := &rush.Crowd{
		Clients: []*rush.Client{client}, VoucherID: sale.ID, Stock: r.Stock, Tokens: tokens, Parallel: r.Parallel,
		Progress: func(done, orders int) { fmt.Fprintf(e.Out, "  %d answered, %d orders\n", done, orders) },
	}
	report := crowd.Run(e.Ctx)
	printReport(e.Out, report)
	verdicts, err := crowd.Check(e.Ctx, report)
	if err != nil {
		return &exitError{2, err}
	}
	return printVerdicts(e.Out, verdicts)
}

func printReport(out io.Writer, r *rush.Report) {
	orders, last := r.Orders()
	fmt.Fprintf(out, "%d durable orders in %.2fs, %.0f a second; everybody answered in %.2fs\n",
		orders, last.Seconds(), float64(orders)/max(last.Seconds(), 1e-3), r.Elapsed.Seconds())
	fmt.Fprint(out, "latency")
	for _, p := range []int{50, 90, 95, 99, 100} {
		fmt.Fprintf(out, "  p%d %.1fms", p, float64(r.Percentile(p).Microseconds())/1000)
	}
	fmt.Fprintln(out)
	codes := make([]string, 0, len(r.Codes))
	for code := range r.Codes {
		codes = append(codes, code)
	}
	slices.Sort(codes)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, code := range codes {
		fmt.Fprintf(w, "  %s\t%d\n", code, r.Codes[code])
	}
	_ = w.Flush()
}

func printVerdicts(out io.Writer, verdicts []rush.Verdict) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	broken := 0
	for _, v := range verdicts {
		word := "holds"
		if !v.Holds {
			word = "BROKEN"
			broken++
		}
		fmt.Fprintf(w, "%s %s\t%s\t%s\n", v.ID, v.Title, word, v.Detail)
	}
	_ = w.Flush()
	if broken > 0 {
		return fmt.Errorf("%d invariants are broken", broken)
	}
	return nil
}

// credentials finds an admin and the buyers by the first way that works: what the flags name, the server's own
// database if it is configured here, the demo mode of the server.
func (r rushCmd) credentials(e *app.Env, client *rush.Client) (admin string, tokens []string, err error) {
	admin = r.AdminToken
	if r.Tokens != "" {
		if tokens, err = readTokens(r.Tokens, r.Buyers); err != nil {
			return "", nil, err
		}
	}
	if admin == "" || tokens == nil {
		seededAdmin, seeded, err := r.seed(e, client)
		switch {
		case err != nil:
			e.Log.Debug("the buyers are not seeded from here", "err", err)
		default:
			return orElse(admin, seededAdmin), orElseList(tokens, seeded), nil
		}
	}
	if admin == "" {
		phone := app.DemoAdmin
		if len(e.Config.AdminPhones) > 0 {
			phone = e.Config.AdminPhones[0]
		}
		if admin, err = client.Login(e.Ctx, phone); err != nil {
			return "", nil, fmt.Errorf("log in as admin %s (or give --admin-token): %w", phone, err)
		}
	}
	if tokens == nil {
		fmt.Fprintf(e.Out, "logging %d buyers in; a server with SECKILL_RATE_LIMIT=on lets in one a second (--tokens is quicker)\n", r.Buyers)
		if tokens, err = r.logins(e.Ctx, client); err != nil {
			return "", nil, fmt.Errorf("log the buyers in (or give --tokens): %w", err)
		}
	}
	return admin, tokens, nil
}

// errNotOurs says that the configuration here is not that of the server.
var errNotOurs = errors.New("the server does not accept tokens signed with the secret that is configured here")

// seed makes the buyers straight in the server's database, and an admin's token with its secret, under the same
// rule as the seed command. Nothing is written before the server has accepted a token signed here.
func (r rushCmd) seed(e *app.Env, client *rush.Client) (admin string, tokens []string, err error) {
	if !e.Config.IsDemo() {
		return "", nil, errNoSeeding
	}
	if e.Config.JWTSecret == "" {
		if _, err := os.Stat(filepath.Join(e.Config.DataDir, app.SecretFile)); err != nil {
			return "", nil, err // do not make a data directory for a server that lives elsewhere
		}
	}
	signer, err := app.NewSigner(e.Config)
	if err != nil {
		return "", nil, err
	}
	// Whoever has the secret is an admin. The session need not exist: only its end is recorded.
	admin, err = signer.Access(auth.Identity{UserID: 1, SessionID: auth.NewSessionID(), Role: service.RoleAdmin}, auth.AccessTTL)
	if err != nil {
		return "", nil, err
	}
	if !client.Accepts(e.Ctx, admin) {
		return "", nil, errNotOurs
	}
	store, err := app.OpenStore(e.Config)
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	buyers, err := app.SeedBuyers(e.Ctx, store, signer, r.Buyers)
	if err != nil {
		return "", nil, err
	}
	for _, b := range buyers {
		tokens = append(tokens, b.Token)
	}
	if !client.Knows(e.Ctx, tokens[0]) {
		return "", nil, errNotOurs // the same secret, but another database
	}
	return admin, tokens, nil
}

// logins logs buyers in through the demo mode, as fast as the server lets this address.
func (r rushCmd) logins(ctx context.Context, client *rush.Client) ([]string, error) {
	tokens := make([]string, r.Buyers)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(min(r.Parallel, 8))
	for i := range tokens {
		group.Go(func() error {
			token, err := client.Login(ctx, fmt.Sprintf("1990%07d", i))
			tokens[i] = token
			return err
		})
	}
	return tokens, group.Wait()
}

// readTokens reads up to n lines of user_id,access_token.
func readTokens(path string, n int) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("tokens file: %w", err)
	}
	defer f.Close()
	var tokens []string
	lines := bufio.NewScanner(f)
	for lines.Scan() && len(tokens) < n {
		_, token, ok := strings.Cut(lines.Text(), ",")
		if !ok {
			return nil, fmt.Errorf("tokens file: line %d is not user_id,access_token", len(tokens)+1)
		}
		tokens = append(tokens, token)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("tokens file: %w", err)
	}
	if len(tokens) < n {
		return nil, fmt.Errorf("tokens file: %d tokens for %d buyers", len(tokens), n)
	}
	return tokens, nil
}

func orElse(s, fallback string) string {
	if s != "" {
		return s
	}
	return fallback
}

func orElseList(s, fallback []string) []string {
	if s != nil {
		return s
	}
	return fallback
}

package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"seckill/internal/app"
	"seckill/internal/domain"
	"seckill/internal/ops/rush"
)

type rushCmd struct {
	URL        string        `placeholder:"URL" help:"URL of the server. Default: this machine, at the port of SECKILL_ADDR."`
	Buyers     int           `default:"1000" help:"Number of buyers (${default})."`
	Stock      int64         `default:"100" help:"Units of the sale (${default})."`
	Parallel   int           `default:"256" help:"Buyers with a request in progress (${default})."`
	For        time.Duration `default:"0s" placeholder:"DURATION" help:"Time over which the buyers arrive, such as 20s to watch the sale in the console. Default: all at once."`
	Tokens     string        `placeholder:"FILE" help:"Buyers' tokens, as written by seed. Default, in demo mode only: users are seeded if the configuration is that of the server; otherwise the server simulates the buyers itself."`
	AdminToken string        `placeholder:"TOKEN" help:"Access token of the admin that creates the sale. Default, in demo mode only: the first of the admins logs in."`
}

// Run creates the sale, runs the buyers and checks the invariants.
func (r rushCmd) Run(e *app.Env) error {
	if r.Buyers < 1 || r.Buyers > 1_000_000 || r.Stock < 0 || r.Parallel < 1 || r.Parallel > 10_000 {
		return errors.New("--buyers must be between 1 and 1000000, --stock not negative, --parallel between 1 and 10000")
	}
	if r.For < 0 || r.For > 30*time.Minute {
		return errors.New("--for must be between 0s and 30m, half of the sale")
	}

	url := cmp.Or(r.URL, app.LocalURL(e.Config.Addr))
	client, err := rush.NewClient(url, r.Parallel)
	if err != nil {
		return err
	}
	defer client.Close()
	client.UserAgent = app.UserAgent()

	if err := client.Reach(e.Ctx); err != nil {
		return fmt.Errorf("no server answers at %s; start one with \"seckill serve\", or name another one with --url: %w", url, err)
	}

	admin, err := r.adminToken(e, client)
	if err != nil {
		return err
	}

	tokens, err := r.buyerTokens(e, admin)
	if err != nil {
		return err
	}
	if tokens == nil {
		return r.runOnServer(e, client, admin)
	}

	sale, err := client.CreateSale(e.Ctx, admin, app.RushTitle(r.Stock), r.Stock)
	if err != nil {
		return fmt.Errorf("create the sale: %w", err)
	}
	defer endSale(e, client, admin, sale.ID)

	fmt.Fprintf(e.Out, "sale %s: %d units, %d buyers, %d in parallel\n", sale.ID, r.Stock, len(tokens), r.Parallel)

	began := time.Now()
	buyers := &rush.Buyers{
		Clients:   []*rush.Client{client},
		VoucherID: sale.ID,
		Stock:     r.Stock,
		Tokens:    tokens,
		Parallel:  r.Parallel,
		For:       r.For,
		Progress:  func(done, orders int) { printProgress(e.Out, done, len(tokens), orders, time.Since(began)) },
	}

	report := buyers.Run(e.Ctx)
	printReport(e.Out, report)

	verdicts, err := buyers.Check(e.Ctx, report)
	if err != nil {
		return &exitError{ExitUnchecked, err}
	}

	return printVerdicts(e.Out, verdicts)
}

// endSaleTimeout bounds the end of the sale, even after the command was interrupted.
const endSaleTimeout = 15 * time.Second

// endSale ends the sale, because the units of its unpaid orders return later: they must not be offered to buyers.
func endSale(e *app.Env, client *rush.Client, admin, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.Ctx), endSaleTimeout)
	defer cancel()
	if err := client.EndSale(ctx, admin, id); err != nil {
		e.Log.Warn("cannot end the sale of the rush; end it in the console", "voucher_id", id, "err", err)
	}
}

func printProgress(out io.Writer, answered, buyers, orders int, elapsed time.Duration) {
	rest := ""
	if answered > 0 && answered < buyers {
		rest = fmt.Sprintf(", about %s left", (elapsed * time.Duration(buyers-answered) / time.Duration(answered)).Round(time.Second))
	}
	fmt.Fprintf(out, "  %d of %d answered, %d orders%s\n", answered, buyers, orders, rest)
}

func printReport(out io.Writer, r *rush.Report) {
	orders, last := r.Orders()
	fmt.Fprintf(out, "%d durable orders in %.2fs, %.0f a second; all buyers answered in %.2fs\n",
		orders, last.Seconds(), float64(orders)/max(last.Seconds(), 1e-3), r.Elapsed.Seconds())

	fmt.Fprint(out, "latency")
	for _, p := range []int{50, 90, 95, 99, 100} {
		fmt.Fprintf(out, "  p%d %.1fms", p, milliseconds(r.Percentile(p)))
	}

	fmt.Fprintln(out)

	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, code := range slices.Sorted(maps.Keys(r.Codes)) {
		fmt.Fprintf(w, "  %s\t%d\n", code, r.Codes[code])
	}

	_ = w.Flush()
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func printVerdicts(out io.Writer, verdicts []domain.Verdict) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	broken := 0
	for _, v := range verdicts {
		word := "holds"
		if v.Broken() {
			word = "BROKEN"
			broken++
		}
		fmt.Fprintf(w, "%s %s\t%s\t%s\n", v.ID, v.Title, word, v.Detail)
	}

	_ = w.Flush()
	if broken > 0 {
		return fmt.Errorf("violated: %s", domain.Count(broken, "invariant"))
	}

	return nil
}

func (r rushCmd) runOnServer(e *app.Env, client *rush.Client, admin string) error {
	fmt.Fprintf(e.Out, "the server simulates %d buyers of %d units, because this command cannot reach its database\n", r.Buyers, r.Stock)
	plan := domain.RushPlan{
		Buyers: r.Buyers,
		Stock:  r.Stock,
		For:    int(r.For.Round(time.Second) / time.Second),
	}

	result, err := client.Simulate(e.Ctx, admin, plan, func(s domain.Rush, elapsed time.Duration) {
		printProgress(e.Out, s.Answered, s.Buyers, s.Orders, elapsed)
	})
	if err != nil {
		return fmt.Errorf("simulate the buyers (alternative: --tokens): %w", err)
	}

	fmt.Fprintf(e.Out, "all buyers answered in %.2fs\nlatency  p50 %.1fms  p99 %.1fms\n",
		time.Duration(result.Took).Seconds(), milliseconds(time.Duration(result.P50)), milliseconds(time.Duration(result.P99)))
	if result.Detail != "" {
		return &exitError{ExitUnchecked, errors.New(result.Detail)}
	}

	return printVerdicts(e.Out, result.Verdicts)
}

func (r rushCmd) adminToken(e *app.Env, client *rush.Client) (string, error) {
	if r.AdminToken != "" {
		return r.AdminToken, nil
	}

	phone := app.DemoAdmin
	if len(e.Config.AdminPhones) > 0 {
		phone = e.Config.AdminPhones[0]
	}

	token, err := client.Login(e.Ctx, phone)
	if err != nil {
		return "", fmt.Errorf("log in as admin %s (alternative: --admin-token): %w", phone, err)
	}
	return token, nil
}

// buyerTokens returns the buyers' tokens in the file of the flag, or those of buyers that it seeds in the server's database.
// It returns none if this configuration is not that of the server.
func (r rushCmd) buyerTokens(e *app.Env, admin string) ([]string, error) {
	if r.Tokens != "" {
		return readTokens(r.Tokens, r.Buyers)
	}

	tokens, err := r.seed(e, admin)
	if err != nil {
		e.Log.Debug("cannot seed the buyers", "err", err)
	}
	return tokens, nil
}

// seed stores the buyers in the database of this configuration. As for the seed command, demo mode is required. Nothing is
// written unless the admin's token has the configured signature and its session is in the database: then they are the
// server's.
func (r rushCmd) seed(e *app.Env, admin string) ([]string, error) {
	if !e.Config.IsDemo() {
		return nil, errNoSeeding
	}

	store, err := existingStore(e)
	if err != nil {
		return nil, err
	}
	defer store.Close()

	signer, err := app.NewSigner(e.Config)
	if err != nil {
		return nil, err
	}

	id, err := signer.Verify(admin)
	if err != nil {
		return nil, err
	}
	if _, _, err := store.SessionUser(e.Ctx, id.SessionID); err != nil {
		return nil, err
	}

	var tokens []string
	buyers, err := app.SeedBuyers(e.Ctx, store, signer, r.Buyers)
	for _, b := range buyers {
		tokens = append(tokens, b.Token)
	}
	return tokens, err
}

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

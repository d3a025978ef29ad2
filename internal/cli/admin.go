package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/boombuler/barcode/qr"
	"github.com/pquerna/otp"

	"seckill/internal/app"
	"seckill/internal/auth"
	"seckill/internal/domain"
)

type adminCmd struct {
	Enroll enrollAdminCmd `cmd:"" help:"Give a role to a user, print the key for their authenticator app, and end their sessions."`
	List   listAdminsCmd  `cmd:"" help:"List the users with a role above buyer."`
	Remove removeAdminCmd `cmd:"" help:"Make a user a buyer and end their sessions."`
}

type enrollAdminCmd struct {
	Phone string      `required:"" help:"Phone number of the user, who need not have logged in before."`
	Shops []int64     `help:"Ids of the shops whose vouchers a redeemer may redeem, such as 1,2. Default: all."`
	Role  domain.Role `enum:",viewer,redeemer,operator,admin" default:"" help:"viewer, redeemer, operator or admin. Default: operator, or admin for a phone in SECKILL_ADMIN_PHONES."`
}

// Run prints the key of the user's second factor, which is not stored in readable form.
func (r enrollAdminCmd) Run(e *app.Env) error {
	command := "admin enroll"
	if r.Role != "" {
		command += " --role " + string(r.Role)
	}

	return withAdmins(e, command, r.Phone, func(admins *auth.Admins) error {
		u, key, err := admins.Enroll(e.Ctx, r.Phone, r.Role, r.Shops)
		if err != nil {
			return err
		}

		fmt.Fprintf(e.Out, "user %d (%s) has the role %s\n", u.ID, u.Phone, u.Role)
		if key == nil {
			fmt.Fprintln(e.Out, "The role needs no second factor.")
			return nil
		}

		return printKey(e.Out, key)
	})
}

func printKey(out io.Writer, key *otp.Key) error {
	picture, err := terminalQR(key.URL())
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Scan this code with an authenticator app, or enter the key. It is shown only once.\n\n%s\n%s\nkey: %s\n",
		picture, key.URL(), key.Secret())
	return nil
}

// terminalQR draws a QR code with one character for two modules, light on dark as most terminals are.
func terminalQR(text string) (string, error) {
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		return "", fmt.Errorf("draw the QR code: %w", err)
	}

	const margin = 2 // modules
	size := code.Bounds().Dx()
	light := func(x, y int) bool {
		if x < 0 || y < 0 || x >= size || y >= size {
			return true
		}
		red, _, _, _ := code.At(x, y).RGBA()
		return red > 0
	}

	var b strings.Builder
	for y := -margin; y < size+margin; y += 2 {
		for x := -margin; x < size+margin; x++ {
			top := light(x, y)
			bottom := light(x, y+1)
			switch {
			case top && bottom:
				b.WriteString("█")
			case top:
				b.WriteString("▀")
			case bottom:
				b.WriteString("▄")
			default:
				b.WriteString(" ")
			}
		}

		b.WriteString("\n")
	}

	return b.String(), nil
}

type listAdminsCmd struct{}

// Run prints a row per user, with the phone number that "admin remove" needs.
func (listAdminsCmd) Run(e *app.Env) error {
	return withAdmins(e, "admin list", "", func(admins *auth.Admins) error { return printAdmins(e, admins) })
}

func printAdmins(e *app.Env, admins *auth.Admins) error {
	all, err := admins.List(e.Ctx)
	if err != nil {
		return err
	}

	w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "user\tphone\trole\tshops\tsecond factor\tsource")

	for _, a := range all {
		factor := "not needed"
		source := "database"

		switch {
		case !a.EnrolledAt.IsZero():
			factor = "since " + a.EnrolledAt.Format(time.RFC3339)
		case a.User.Role.NeedsSecondFactor() && !e.Config.IsDemo():
			factor = "missing: a buyer until enrolled"
		}

		if slices.Contains(e.Config.AdminPhones, a.User.Phone) {
			source = "SECKILL_ADMIN_PHONES"
		}

		shops := "all"
		if ids := a.User.ShopIDs; len(ids) > 0 && a.User.Role == domain.RoleRedeemer {
			shops = strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]")
		}

		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", a.User.ID, a.User.Phone, a.User.Role, shops, factor, source)
	}

	return w.Flush()
}

type removeAdminCmd struct {
	Phone string `required:"" help:"Phone number of the user."`
}

// Run makes a user a buyer.
func (r removeAdminCmd) Run(e *app.Env) error {
	return withAdmins(e, "admin remove", r.Phone, func(admins *auth.Admins) error {
		u, err := admins.Remove(e.Ctx, r.Phone)
		if errors.Is(err, domain.ErrNotFound) {
			return fmt.Errorf("no user has the phone number %s", r.Phone)
		}
		if err != nil {
			return err
		}

		fmt.Fprintf(e.Out, "user %d (%s) is a buyer; their sessions end within 2 s\n", u.ID, u.Phone)
		if slices.Contains(e.Config.AdminPhones, u.Phone) {
			fmt.Fprintln(e.Out, "SECKILL_ADMIN_PHONES has this number: remove it there, too, on every server.")
		}

		return nil
	})
}

func withAdmins(e *app.Env, command, phone string, do func(*auth.Admins) error) error {
	secrets, err := app.SigningSecrets(e.Config)
	if err != nil {
		return err
	}

	// Valid: checked by Finish.
	numbers, _ := auth.NewPhones(e.Config.SMSCountries)

	store, err := app.OpenPrepared(e)
	if err != nil {
		return err
	}
	defer store.Close()

	admins := &auth.Admins{
		Store:         store,
		SecondFactors: auth.NewSecondFactors(secrets),
		Numbers:       numbers,
		Phones:        e.Config.AdminPhones,
		Issuer:        e.Config.ShopName,
		Now:           time.Now,
	}
	return audited(e.Ctx, store, command, domain.MaskPhone(phone), func() error { return do(admins) })
}

// finishTimeout bounds the write of a command's outcome to the audit log.
const finishTimeout = 5 * time.Second

// audited runs a command that changes something or prints phone numbers. It records the command in the audit log before, and its outcome
// afterwards. If it cannot be recorded, it does not run.
func audited(ctx context.Context, log domain.AuditStore, command, target string, run func() error) error {
	r := domain.AdminRequest{
		At:     domain.Moment(time.Now()),
		Method: domain.MethodCommand,
		Route:  command,
		Target: domain.AuditTarget(target),
	}
	if err := log.RecordRequest(ctx, &r); err != nil {
		return fmt.Errorf("write the audit log: %w", err)
	}

	err := run()
	status := http.StatusOK
	if err != nil {
		status = http.StatusInternalServerError
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	return errors.Join(err, log.FinishRequest(ctx, r.ID, status))
}

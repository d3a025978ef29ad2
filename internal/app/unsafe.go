package app

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"seckill/internal/domain"
	"seckill/internal/ops/doctor"
	"seckill/internal/out/payment"
)

// ConfigToCheck returns what the doctor checks of a configuration that Config.Finish has validated.
func ConfigToCheck(cfg Config) doctor.Settings {
	c := doctor.Settings{
		Secrets:        domain.ParseKeyring(cfg.JWTSecret),
		PaymentSecrets: domain.ParseKeyring(cfg.PaymentSecret),
		EventsSecrets:  domain.ParseKeyring(cfg.EventsSecret),
		PaymentURL:     cfg.PaymentURL,
		CodeURL:        cfg.CodeURL,
		EventsURL:      cfg.EventsURL,
		DSN:            cfg.MySQLDSN,
		DataDir:        cfg.DataDir,
		Demo:           cfg.IsDemo(),
		DemoAdmin:      DemoAdmin,
		Admins:         cfg.AdminPhones,
		RateLimit:      cfg.RateLimit == "on",
		Proxies:        cfg.Proxies,
		Addr:           cfg.Addr,
		OpsAddr:        cfg.OpsAddr,
		PayTimeout:     cfg.PayTimeout,
		Faults:         cfg.Sandbox != (payment.Faults{}),
		Lane:           cfg.OrderLane,
		EmbeddedRedis:  cfg.EmbeddedRedis(),
		LockNodes:      cfg.LockNodes,
		Unsafe:         cfg.Unsafe,
	}

	if cfg.JWTSecret == "" && !cfg.Embedded() {
		// Returns the error for a missing secret; creates nothing.
		_, c.SecretErr = SigningSecrets(cfg)
	} else if cfg.JWTSecret == "" {
		c.Secrets, c.SecretErr = ReadSecrets(filepath.Join(cfg.DataDir, SecretFile))
	}

	return c
}

// refuseUnsafe returns an error if a setting is unsafe outside the embedded demo. The settings named by SECKILL_UNSAFE are
// logged instead.
func refuseUnsafe(e *Env) error {
	if e.Config.embeddedDemo() {
		return nil
	}

	var text strings.Builder
	var names []string
	for _, f := range doctor.Run(e.Ctx, []doctor.Group{ConfigToCheck(e.Config).Group()}) {
		name := doctor.UnsafeName(f.Check)

		switch {
		case f.Accepted:
			e.Log.Warn("unsafe setting, accepted by SECKILL_UNSAFE", "name", name, "found", f.Found, "change", f.Change)
		case f.Status == doctor.Fail:
			names = append(names, name)
			fmt.Fprintf(&text, "  %s: %s\n    -> %s\n", name, f.Found, f.Change)
		}
	}

	if len(names) == 0 {
		return nil
	}

	return fmt.Errorf("outside the embedded demo the server refuses unsafe settings:\n%s"+
		"Change them, or accept each by name, for a trial that is not reachable from outside: SECKILL_UNSAFE=%s", text.String(), strings.Join(names, ","))
}

// parseUnsafe returns the names of checks in list, without the prefix "config." and with "all" replaced by all names.
// It returns an error for an unknown name.
func parseUnsafe(list []string) ([]string, error) {
	known := doctor.UnsafeNames()
	var names []string
	var unknown []error
	for _, s := range list {
		name := doctor.UnsafeName(s)
		switch {
		case name == "all":
			names = append(names, known...)
		case slices.Contains(known, name):
			names = append(names, name)
		default:
			unknown = append(unknown, fmt.Errorf("  --unsafe: %q is neither all nor one of %s", s, strings.Join(known, ", ")))
		}
	}

	return names, errors.Join(unknown...)
}

package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"seckill/internal/ops/doctor"
)

// refuseUnsafe returns an error if a setting is unsafe outside the embedded demo. The settings named by SECKILL_UNSAFE are
// logged instead.
func refuseUnsafe(e *Env) error {
	if e.Config.embeddedDemo() {
		return nil
	}

	var text strings.Builder
	var names []string
	for _, f := range doctor.Run(e.Ctx, []doctor.Group{SettingsChecks(e.Config)}) {
		name := unsafeName(f.Check)

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
	known := unsafeNames()
	var names []string
	var unknown []error
	for _, s := range list {
		name := unsafeName(s)
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

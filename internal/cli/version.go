package cli

import (
	"fmt"

	"github.com/alecthomas/kong"

	"seckill/internal/app"
)

type versionCmd struct{}

// BeforeReset prints the version before any setting is read, so that an invalid one does not hide it.
func (versionCmd) BeforeReset(k *kong.Kong) error {
	_, err := fmt.Fprintln(k.Stdout, app.VersionDetails())
	k.Exit(0)
	return err
}

package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// secretFile reads the value of a flag with the tag `file` from the file that NAME_FILE names, where NAME is the flag's
// environment variable. The file's last line break is removed. It is an error if both variables are set.
func secretFile(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if flag.Tag == nil || !flag.Tag.Has("file") {
		return nil, nil //nolint:nilnil // kong: the resolver has no value
	}

	name := flag.Envs[0]
	path := os.Getenv(name + "_FILE")
	switch {
	case path == "":
		return nil, nil //nolint:nilnil // likewise
	case os.Getenv(name) != "":
		return nil, fmt.Errorf("%s and %s_FILE are both set", name, name)
	}

	text, err := os.ReadFile(path) //nolint:gosec // named by the operator
	value := strings.TrimRight(string(text), "\r\n")
	if err == nil && value == "" {
		err = errors.New(path + " is empty")
	}

	if err != nil {
		return nil, fmt.Errorf("%s_FILE: %w", name, err)
	}

	return value, nil
}

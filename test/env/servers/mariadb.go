package servers

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
)

// RunMariaDB starts a mariadbd with an empty data directory and returns when it answers. ctx and StartTimeout
// bound only the start; the server runs until Stop. args are appended to the default arguments and override them. If
// the program is missing, the error wraps [exec.ErrNotFound].
func RunMariaDB(ctx context.Context, args ...string) (*Database, error) {
	bin, err := FindBinary("mariadbd")
	if err != nil {
		return nil, err
	}

	template, err := mariaDBTemplate(ctx, bin)
	if err != nil {
		return nil, fmt.Errorf("create an empty MariaDB data directory: %w", err)
	}

	return runDatabase(ctx, bin, template, func(s *Process) []string {
		return append(mariaDBArgs(s), args...)
	})
}

func mariaDBArgs(s *Process) []string {
	return append(databaseArgs(s), mariaDBFiles...)
}

// mariaDBFiles keeps the files of an empty server small, because each server starts with a copy of them. A caller that
// measures speed passes a larger redo log ("--innodb-log-file-size=512M"), to which MariaDB resizes it at startup.
var mariaDBFiles = []string{
	"--innodb-log-file-size=16M",
	"--innodb-data-file-path=ibdata1:12M:autoextend",
	"--innodb-autoextend-increment=4",
}

func mariaDBTemplate(ctx context.Context, mariadbd string) (string, error) {
	install, err := FindBinary("mariadb-install-db")
	if err != nil {
		return "", err
	}

	version, err := exec.CommandContext(ctx, mariadbd, "--no-defaults", "--version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w\n%s", mariadbd, err, version)
	}

	args := append([]string{
		"--no-defaults", // must come first
		"--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", "--force", // --force: the host name may not resolve
	}, mariaDBFiles...)

	return makeTemplate(ctx, "mariadb", string(version), args, func(ctx context.Context, dir string) error {
		return fillTemplate(ctx, install, append(slices.Clone(args), "--datadir="+dir))
	})
}

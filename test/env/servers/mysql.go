package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// RunMySQL is RunMariaDB for a mysqld of version 8.4 or later.
func RunMySQL(ctx context.Context, args ...string) (*Database, error) {
	bin, version, err := findMySQL(ctx)
	if err != nil {
		return nil, err
	}

	template, err := mySQLTemplate(ctx, bin, version)
	if err != nil {
		return nil, fmt.Errorf("create an empty MySQL data directory: %w", err)
	}

	return runDatabase(ctx, bin, template, func(s *Process) []string {
		return append(mySQLArgs(s), args...)
	})
}

// findMySQL returns the path of mysqld and the output of its option --version. The one that .ci/install-mysql has
// unpacked in the user's cache comes first. Many systems have MariaDB or an older MySQL under the same name.
func findMySQL(ctx context.Context) (bin, version string, err error) {
	var found []string
	if cache, err := cacheFolder(); err == nil {
		found = append(found, filepath.Join(cache, "mysql", "mysqld"))
	}

	if path, err := FindBinary("mysqld"); err == nil {
		found = append(found, path)
	}

	for _, bin := range found {
		out, err := exec.CommandContext(ctx, bin, "--no-defaults", "--version").CombinedOutput() //nolint:gosec // a program of a fixed name
		if err == nil && recentMySQL(string(out)) {
			return bin, string(out), nil
		}
	}

	return "", "", fmt.Errorf("MySQL 8.4 or later is not installed (\"make deps\" unpacks it on Debian and Ubuntu): %w", exec.ErrNotFound)
}

// mySQLVersion matches the output of mysqld --version. That of MariaDB has the suffix -MariaDB behind its number.
var mySQLVersion = regexp.MustCompile(`Ver (\d+)\.(\d+)\.\d+(-MariaDB)?`)

// recentMySQL reports whether a program is a MySQL of version 8.4 or later.
func recentMySQL(version string) bool {
	m := mySQLVersion.FindStringSubmatch(version)
	if m == nil || m[3] != "" {
		return false
	}

	major, _ := strconv.Atoi(m[1]) // it consists of digits
	minor, _ := strconv.Atoi(m[2])
	return major > 8 || major == 8 && minor >= 4
}

func mySQLArgs(s *Process) []string {
	args := append(databaseArgs(s),
		"--mysqlx=OFF",
		"--secure-file-priv=NULL") // its default directory may not exist
	return append(args, mySQLFiles...)
}

// mySQLFiles is mariaDBFiles for MySQL.
var mySQLFiles = []string{
	"--innodb-redo-log-capacity=16M",
	"--innodb-data-file-path=ibdata1:12M:autoextend",
	"--innodb-autoextend-increment=4",
}

func mySQLTemplate(ctx context.Context, mysqld, version string) (string, error) {
	args := append([]string{
		"--no-defaults", // must come first
		"--initialize-insecure",
	}, mySQLFiles...)

	return makeTemplate(ctx, "mysql", version, args, func(ctx context.Context, dir string) error {
		// The user that exists already is root@localhost, which connections by TCP are not.
		users := dir + ".sql"
		err := os.WriteFile(users, []byte("CREATE USER root@'%';\nGRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;\n"), 0o600)
		if err != nil {
			return err
		}
		defer func() { _ = os.Remove(users) }()

		if err := fillTemplate(ctx, mysqld, slices.Concat(args, []string{"--datadir=" + dir, "--init-file=" + users}, asRoot())); err != nil {
			return err
		}

		// Replication needs servers with different ids.
		return os.Remove(filepath.Join(dir, "auto.cnf"))
	})
}

package doctor

import (
	"context"
	"regexp"
	"slices"
	"strings"
)

// needed are the privileges of the program: the first four while it sells, the others to bring its schema up to date.
var needed = []string{"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "INDEX"}

// harmless are privileges on everything that give nothing away but figures.
var harmless = []string{
	"USAGE", "PROCESS", "SHOW DATABASES", "REPLICATION CLIENT", "BINLOG MONITOR", "SLAVE MONITOR", "REPLICA MONITOR",
}

func (s *mysqlServer) checkPrivileges(ctx context.Context) Result {
	var database string
	if err := s.Pool.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&database); err != nil {
		return Unanswered(err, mysqlCure(err))
	}
	rows, err := s.Pool.QueryContext(ctx, "SHOW GRANTS")
	if err != nil {
		return Unanswered(err, mysqlCure(err))
	}
	defer func() { _ = rows.Close() }() // Err says what went wrong
	var grants []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return Unanswered(err, mysqlCure(err))
		}
		grants = append(grants, line) // never printed: MariaDB tells the password's hash
	}
	if err := rows.Err(); err != nil {
		return Unanswered(err, mysqlCure(err))
	}
	return grantsResult(grants, database)
}

var (
	grantLine = regexp.MustCompile("(?i)^GRANT (.+?) ON (?:TABLE )?(\\*|`(?:[^`]|``)*`)\\.(\\*|`(?:[^`]|``)*`) TO ")
	columns   = regexp.MustCompile(`\([^)]*\)`)
)

// grantsResult holds the lines of SHOW GRANTS against what the program needs in a database.
func grantsResult(grants []string, database string) Result {
	var has, global []string
	roles := false
	for _, line := range grants {
		m := grantLine.FindStringSubmatch(line)
		if m == nil {
			roles = roles || strings.HasPrefix(line, "GRANT `") || strings.HasPrefix(line, "GRANT '")
			continue
		}
		everywhere := m[2] == "*"
		if m[3] != "*" || !everywhere && !matches(m[2], database) {
			continue
		}
		for p := range strings.SplitSeq(columns.ReplaceAllString(m[1], ""), ",") {
			p = strings.ToUpper(strings.TrimSpace(p))
			if has = append(has, p); everywhere && !slices.Contains(harmless, p) {
				global = append(global, p)
			}
		}
	}
	var missing []string
	for _, p := range needed {
		if !slices.Contains(has, p) && !slices.Contains(has, "ALL PRIVILEGES") && !slices.Contains(has, "ALL") {
			missing = append(missing, p)
		}
	}
	list := strings.Join(missing, ", ")
	grant := "GRANT " + list + " ON `" + database + "`.* TO the user of SECKILL_MYSQL_DSN"
	switch {
	case len(missing) > 0 && roles:
		return Result{Status: Skipped, Found: "the user has roles, which may or may not give " + list, Change: "see by hand: SHOW GRANTS"}
	case len(missing) > 0 && slices.Contains(needed[:4], missing[0]):
		return Bad(Fail, grant, "the user lacks %s", list)
	case len(missing) > 0:
		return Bad(Warn, grant+", or run seckill migrate up as another user before each new version",
			"the user lacks %s: a server that starts cannot bring the schema up to date", list)
	case len(global) > 0:
		return Bad(Warn, "make a user with GRANT "+strings.Join(needed, ", ")+" ON `"+database+"`.* and nothing else",
			"the user may do more than needed, on everything: %s", abridged(global))
	}
	return Good("the user may do what is needed in `%s`, and nothing elsewhere", database)
}

// abridged lists a few privileges, the telling ones first.
func abridged(privileges []string) string {
	for _, p := range []string{"SUPER", "ALL PRIVILEGES"} {
		if slices.Contains(privileges, p) {
			return p
		}
	}
	if len(privileges) > 3 {
		return strings.Join(privileges[:3], ", ") + " and others"
	}
	return strings.Join(privileges, ", ")
}

// matches compares a quoted pattern of a grant, in which % and _ are wild and \ escapes, with a name.
func matches(quoted, name string) bool {
	pattern := strings.ReplaceAll(strings.Trim(quoted, "`"), "``", "`")
	var re strings.Builder
	re.WriteString("^")
	escaped := false
	for _, r := range pattern {
		switch {
		case !escaped && r == '\\':
			escaped = true
			continue
		case !escaped && r == '%':
			re.WriteString(".*")
		case !escaped && r == '_':
			re.WriteString(".")
		default:
			re.WriteString(regexp.QuoteMeta(string(r)))
		}
		escaped = false
	}
	ok, err := regexp.MatchString(re.String()+"$", name)
	return err == nil && ok
}

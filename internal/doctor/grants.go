package doctor

import (
	"context"
	"regexp"
	"slices"
	"strings"
)

// needed are the privileges that the program uses: the first four for sales, the others for migrations.
var needed = []string{"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "INDEX"}

// harmless are global privileges that expose only names and statistics.
var harmless = []string{
	"USAGE", "PROCESS", "SHOW DATABASES", "REPLICATION CLIENT", "BINLOG MONITOR", "SLAVE MONITOR", "REPLICA MONITOR",
}

func (s *mysqlServer) checkPrivileges(ctx context.Context) Result {
	var database string
	if err := s.Pool.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&database); err != nil {
		return Unanswered(err, mysqlFix(err))
	}
	rows, err := s.Pool.QueryContext(ctx, "SHOW GRANTS")
	if err != nil {
		return Unanswered(err, mysqlFix(err))
	}
	defer func() { _ = rows.Close() }() // rows.Err reports the error
	var grants []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return Unanswered(err, mysqlFix(err))
		}
		grants = append(grants, line) // never printed: MariaDB includes the password's hash
	}
	if err := rows.Err(); err != nil {
		return Unanswered(err, mysqlFix(err))
	}
	return grantsResult(grants, database)
}

var (
	// Matches the privileges, the kind, the database and the object of a grant. Roles and PROXY have other forms.
	grantLine = regexp.MustCompile("(?i)^GRANT (.+?) ON (TABLE |PROCEDURE |FUNCTION |PACKAGE |PACKAGE BODY )?(\\*|`(?:[^`]|``)*`)\\.(\\*|`(?:[^`]|``)*`) TO ")
	columns   = regexp.MustCompile(`\([^)]*\)`)
)

// granted is what SHOW GRANTS gives a user in one database.
type granted struct {
	has       []string // privileges in the whole database
	global    []string // global privileges that are not harmless
	elsewhere []string // other objects with privileges, as the grants name them
	place     string   // the pattern in the grants that matches the database
	tables    bool     // there are privileges on single tables of the database
	roles     bool     // there are roles, whose privileges SHOW GRANTS does not list
}

func readGrants(grants []string, database string) granted {
	g := granted{place: "`" + database + "`"}
	for _, line := range grants {
		m := grantLine.FindStringSubmatch(line)
		if m == nil {
			g.roles = g.roles || strings.HasPrefix(line, "GRANT `") || strings.HasPrefix(line, "GRANT '")
			continue
		}
		var privileges []string
		for p := range strings.SplitSeq(columns.ReplaceAllString(m[1], ""), ",") {
			privileges = append(privileges, strings.ToUpper(strings.TrimSpace(p)))
		}
		kind, on, object := strings.ToUpper(m[2]), m[3], m[4]
		switch whole := object == "*"; {
		case on == "*":
			g.has = append(g.has, privileges...)
			g.global = append(g.global, slices.DeleteFunc(privileges, func(p string) bool { return slices.Contains(harmless, p) })...)
		case !whole && unquoted(on) == database:
			g.tables = g.tables || kind == "" || kind == "TABLE "
		case !whole || !matches(on, database):
			if slices.ContainsFunc(privileges, func(p string) bool { return p != "USAGE" }) {
				g.elsewhere = append(g.elsewhere, on+"."+object)
			}
		default:
			if g.has, g.place = append(g.has, privileges...), on; strings.Contains(strings.ReplaceAll(on, `\%`, ""), "%") {
				g.elsewhere = append(g.elsewhere, on+".*") // it matches other databases, too
			}
		}
	}
	return g
}

// lacking returns the wanted privileges that are not in the list.
func lacking(wanted, list []string) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(p string) bool {
		return slices.Contains(list, p) || slices.Contains(list, "ALL PRIVILEGES") || slices.Contains(list, "ALL")
	})
}

// selling are the needed privileges without which no order can be stored.
var selling = needed[:4]

// grantsResult compares the output of SHOW GRANTS with what the program needs in a database.
func grantsResult(grants []string, database string) Result {
	g := readGrants(grants, database)
	missing := lacking(needed, g.has)
	list := strings.Join(missing, ", ")
	grant := "GRANT " + list + " ON `" + database + "`.* TO the user of SECKILL_MYSQL_DSN"
	const byHand = "check SHOW GRANTS by hand"
	switch {
	case len(missing) > 0 && g.roles:
		return Result{Status: Skipped, Found: "the user has roles, whose privileges are not examined; without them it lacks " + list, Change: byHand}
	case len(missing) > 0 && g.tables:
		return Result{Status: Skipped, Found: "the user has privileges on single tables, which are not examined; without them it lacks " + list, Change: byHand}
	case len(lacking(selling, g.has)) > 0:
		return Bad(Fail, grant, "the user lacks %s", list)
	case len(missing) > 0:
		return Bad(Warn, grant+", or run seckill migrate up as another user before each new version",
			"the user lacks %s: a starting server cannot migrate the schema", list)
	}
	more := "create a user with GRANT " + strings.Join(needed, ", ") + " ON `" + database + "`.* and nothing else"
	switch {
	case len(g.global) > 0:
		return Bad(Warn, more, "the user has more global privileges than needed: %s", abridged(g.global))
	case len(g.elsewhere) > 0:
		return Bad(Warn, more, "the user has all needed privileges on %s, and privileges elsewhere: %s", g.place, abridged(g.elsewhere))
	case g.roles:
		return Good("the user has all needed privileges on %s; its roles were not examined", g.place)
	}
	return Good("the user has all needed privileges on %s, and none elsewhere", g.place)
}

// abridged returns the broadest privilege, or the first few.
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

func unquoted(name string) string { return strings.ReplaceAll(strings.Trim(name, "`"), "``", "`") }

// matches reports whether a quoted pattern of a grant, with the wildcards % and _ and the escape \, matches a name.
func matches(quoted, name string) bool {
	pattern := unquoted(quoted)
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

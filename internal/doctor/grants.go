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
	// The kind, the database and the table of a grant. Roles and PROXY have other lines.
	grantLine = regexp.MustCompile("(?i)^GRANT (.+?) ON (TABLE |PROCEDURE |FUNCTION |PACKAGE |PACKAGE BODY )?(\\*|`(?:[^`]|``)*`)\\.(\\*|`(?:[^`]|``)*`) TO ")
	columns   = regexp.MustCompile(`\([^)]*\)`)
)

// granted is what the lines of SHOW GRANTS say of one database.
type granted struct {
	has       []string // in all of it
	tables    []string // in some table of it
	global    []string // on everything, and more than figures
	elsewhere []string // what else may be touched, as the grants name it
	place     string   // the grant's pattern that the database matches
	roles     bool
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
			if kind == "" || kind == "TABLE " {
				g.tables = append(g.tables, privileges...)
			}
		case !whole || !matches(on, database):
			if slices.ContainsFunc(privileges, func(p string) bool { return p != "USAGE" }) {
				g.elsewhere = append(g.elsewhere, on+"."+object)
			}
		default:
			if g.has, g.place = append(g.has, privileges...), on; strings.Contains(strings.ReplaceAll(on, `\%`, ""), "%") {
				g.elsewhere = append(g.elsewhere, on+".*") // it matches others as well
			}
		}
	}
	return g
}

// lacking are those of the wanted privileges that a list has not.
func lacking(wanted, list []string) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(p string) bool {
		return slices.Contains(list, p) || slices.Contains(list, "ALL PRIVILEGES") || slices.Contains(list, "ALL")
	})
}

// selling are those of the needed privileges without which nothing is sold.
var selling = needed[:4]

// grantsResult holds the lines of SHOW GRANTS against what the program needs in a database.
func grantsResult(grants []string, database string) Result {
	g := readGrants(grants, database)
	missing := lacking(needed, g.has)
	list := strings.Join(missing, ", ")
	grant := "GRANT " + list + " ON `" + database + "`.* TO the user of SECKILL_MYSQL_DSN"
	const byHand = "see by hand: SHOW GRANTS"
	switch {
	case len(missing) > 0 && g.roles:
		return Result{Status: Skipped, Found: "the user has roles, which may or may not give " + list, Change: byHand}
	case len(lacking(selling, slices.Concat(g.has, g.tables))) > 0:
		return Bad(Fail, grant, "the user lacks %s", list)
	case len(lacking(selling, g.has)) > 0:
		return Result{Status: Skipped, Found: "privileges are granted table by table, which may or may not be all that is needed: " + list, Change: byHand}
	case len(missing) > 0:
		return Bad(Warn, grant+", or run seckill migrate up as another user before each new version",
			"the user lacks %s: a server that starts cannot bring the schema up to date", list)
	}
	more := "make a user with GRANT " + strings.Join(needed, ", ") + " ON `" + database + "`.* and nothing else"
	switch {
	case len(g.global) > 0:
		return Bad(Warn, more, "the user may do more than needed, on everything: %s", abridged(g.global))
	case len(g.elsewhere) > 0:
		return Bad(Warn, more, "the user may do what is needed in %s, and has privileges elsewhere: %s", g.place, abridged(g.elsewhere))
	case g.roles:
		return Good("the user may do what is needed in %s; its roles were not looked into", g.place)
	}
	return Good("the user may do what is needed in %s, and nothing elsewhere", g.place)
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

func unquoted(name string) string { return strings.ReplaceAll(strings.Trim(name, "`"), "``", "`") }

// matches compares a quoted pattern of a grant, in which % and _ are wild and \ escapes, with a name.
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

package doctor

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// needed are the privileges that the program uses: the first four for sales, the others for migrations.
var needed = []string{"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "INDEX"}

// harmless are global privileges that expose only names and statistics.
var harmless = []string{
	"USAGE", "PROCESS", "SHOW DATABASES", "REPLICATION CLIENT", "BINLOG MONITOR", "SLAVE MONITOR", "REPLICA MONITOR",
}

// privilegesQuery reads the privileges of this account, but for those on routines: whether they apply to this database,
// the database or pattern, the table, and the name.
const privilegesQuery = `SELECT here, place, object, privilege_type FROM (
	SELECT TRUE AS here, '*' AS place, '*' AS object, privilege_type, grantee FROM information_schema.user_privileges
	UNION ALL SELECT DATABASE() LIKE CAST(table_schema AS BINARY), table_schema, '*', privilege_type, grantee FROM information_schema.schema_privileges
	UNION ALL SELECT DATABASE() = CAST(table_schema AS BINARY), table_schema, table_name, privilege_type, grantee FROM information_schema.table_privileges
	UNION ALL SELECT DATABASE() = CAST(table_schema AS BINARY), table_schema, table_name, privilege_type, grantee FROM information_schema.column_privileges
) p WHERE REPLACE(grantee, '''', '') = REPLACE(CURRENT_USER(), '''', '') AND privilege_type <> 'USAGE'`

func (s *mysqlServer) checkPrivileges(ctx context.Context) Result {
	var g granted
	var database string
	err := s.Pool.QueryRowContext(ctx, "SELECT DATABASE(), COALESCE(CURRENT_ROLE(), 'NONE') <> 'NONE'").Scan(&database, &g.roles)
	if err != nil {
		return Unanswered(err, mysqlFix(err))
	}
	rows, err := s.Pool.QueryContext(ctx, privilegesQuery)
	if err != nil {
		return Unanswered(err, mysqlFix(err))
	}
	defer func() { _ = rows.Close() }() // rows.Err reports the error
	for rows.Next() {
		var here bool
		var place, object, privilege string
		if err := rows.Scan(&here, &place, &object, &privilege); err != nil {
			return Unanswered(err, mysqlFix(err))
		}
		g.add(here, place, object, privilege)
	}
	if err := rows.Err(); err != nil {
		return Unanswered(err, mysqlFix(err))
	}
	return g.result(database)
}

// granted are the privileges of an account.
type granted struct {
	has       []string // privileges in the whole database
	global    []string // global privileges that are not harmless
	elsewhere []string // other databases and tables with privileges
	place     string   // the pattern that matches the database, empty if all privileges are global
	tables    bool     // there are privileges on single tables of the database
	roles     bool     // there are active roles, whose privileges are not read
}

// add adds a row of privilegesQuery.
func (g *granted) add(here bool, place, object, privilege string) {
	on := "`" + place + "`.*"
	wide := strings.Contains(strings.ReplaceAll(place, `\%`, ""), "%") // it matches other databases, too
	switch {
	case place == "*":
		g.has = append(g.has, privilege)
		g.global = append(g.global, without([]string{privilege}, harmless)...)
		return
	case place == "performance_schema" && object == "replication_group_members" && privilege == "SELECT":
		return // database.replication asks for it
	case object != "*" && here:
		g.tables = true
		return
	case object != "*":
		on = "`" + place + "`.`" + object + "`"
	case here:
		g.has, g.place = append(g.has, privilege), place
	}
	if (wide || !here) && !slices.Contains(g.elsewhere, on) {
		g.elsewhere = append(g.elsewhere, on)
	}
}

// selling are the needed privileges without which no order can be stored.
var selling = needed[:4]

// result compares the privileges with what the program needs in a database.
func (g *granted) result(database string) Result {
	missing, place := without(needed, g.has), "`"+cmp.Or(g.place, database)+"`"
	list := strings.Join(missing, ", ")
	grant := "GRANT " + list + " ON `" + database + "`.* TO the user of SECKILL_MYSQL_DSN"
	const byHand = "check SHOW GRANTS by hand"
	switch {
	case len(missing) > 0 && g.roles:
		return Result{Status: Skipped, Found: "the user has roles, whose privileges are not examined; without them it lacks " + list, Change: byHand}
	case len(missing) > 0 && g.tables:
		return Result{Status: Skipped, Found: "the user has privileges on single tables, which are not examined; without them it lacks " + list, Change: byHand}
	case len(without(selling, g.has)) > 0:
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
		return Bad(Warn, more, "the user has all needed privileges on %s, and privileges elsewhere: %s", place, abridged(g.elsewhere))
	case g.roles:
		return Good("the user has all needed privileges on %s; its roles were not examined", place)
	}
	return Good("the user has all needed privileges on %s, and none elsewhere", place)
}

// abridged returns the broadest privilege, or the first few.
func abridged(privileges []string) string {
	if slices.Contains(privileges, "SUPER") {
		return "SUPER"
	}
	if len(privileges) > 3 {
		return strings.Join(privileges[:3], ", ") + " and others"
	}
	return strings.Join(privileges, ", ")
}

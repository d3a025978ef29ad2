package doctor

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

func (s *MySQL) checkReplication(ctx context.Context) Result {
	status, err := variables(ctx, s.Pool, "SHOW GLOBAL STATUS")
	if err != nil {
		return Unanswered(err, mysqlFix(err))
	}

	// MySQL has no such variable.
	replicas := atoi(status["slaves_connected"])
	if !s.maria {
		if replicas, err = dumpThreads(ctx, s.Pool); err != nil {
			return Unanswered(err, mysqlFix(err))
		}
	}

	if s.global["group_replication_group_name"] != "" {
		var online int
		err := s.Pool.QueryRowContext(ctx, "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE member_state = 'ONLINE'").Scan(&online)
		if err != nil {
			return Bad(Warn, "GRANT SELECT ON performance_schema.replication_group_members TO the user of SECKILL_MYSQL_DSN",
				"the members of the replication group are not visible: %v", err)
		}

		return groupResult(online, s.global)
	}

	return replicationResult(replicas, status, s.global, s.session)
}

// dumpThreads counts the threads of MySQL that send the binary log to a replica. A user without PROCESS sees none. While
// a statement with the bytes of a hash runs, a query of information_schema.processlist fails (error 3854).
func dumpThreads(ctx context.Context, pool *sql.DB) (int, error) {
	replicas := 0
	err := eachRow(ctx, pool, "SHOW PROCESSLIST", func(rows *sql.Rows) error {
		var command string
		var other sql.RawBytes
		err := rows.Scan(&other, &other, &other, &other, &command, &other, &other, &other)
		if strings.HasPrefix(command, "Binlog Dump") {
			replicas++
		}
		return err
	})

	return replicas, err
}

func groupResult(online int, global map[string]string) Result {
	consistency := global["group_replication_consistency"]
	switch {
	case online < 2:
		return Bad(Fail, "START GROUP_REPLICATION on at least three servers", "%d members of the replication group are online", online)
	case isOff(global["group_replication_single_primary_mode"]):
		return Bad(Warn, "SELECT group_replication_switch_to_single_primary_mode()",
			"the replication group has several primaries: reads through one can miss a 201 of another, and the lock of migrations is local to each")
	case consistency == "EVENTUAL":
		return Bad(Warn, "SET GLOBAL group_replication_consistency = 'BEFORE_ON_PRIMARY_FAILOVER' on every member, and in my.cnf",
			"group_replication_consistency = EVENTUAL: after a failover, reads can miss orders that were answered 201")
	case online == 2:
		return Bad(Warn, "start a third member", "%s", stopsWithOne("a replication group", online))
	}

	return Good("a replication group of %d members: a majority has every acknowledged commit", online)
}

func stopsWithOne(what string, n int) string {
	return fmt.Sprintf("%s of %d: when one fails, the other has no majority and refuses orders", what, n)
}

// replicationResult judges the replication by the number of attached replicas, the global status, the global variables
// and those of the program's sessions.
func replicationResult(replicas int, status, global, session map[string]string) Result {
	if nodes := atoi(status["wsrep_cluster_size"]); nodes > 0 {
		return galeraResult(nodes, status, session)
	}

	// MySQL 8.0.26 renamed them.
	for _, primary := range []string{"source", "master"} {
		prefix := "rpl_semi_sync_" + primary
		if !isOn(status[prefix+"_status"]) || atoi(status[prefix+"_clients"]) == 0 {
			continue
		}

		if point := global[prefix+"_wait_point"]; point != "AFTER_SYNC" {
			return Bad(Warn, "SET GLOBAL "+prefix+"_wait_point = 'AFTER_SYNC', and in my.cnf",
				"replication is semi-synchronous with %s: requests read orders that no replica has, and a failover can lose them after a repeated 201", point)
		}

		return Good("replication is semi-synchronous: acknowledged commits are on a replica, unless none confirmed for %s ms",
			global[prefix+"_timeout"])
	}

	if replicas > 0 {
		return Bad(Warn, "use semi-synchronous replication (AFTER_SYNC) or Galera, or never fail over to a lagging replica",
			"%d replicas, asynchronous: a failover loses the last orders that were answered 201", replicas)
	}

	return Good("no replica is visible to this user: orders are as safe as the disk of this server")
}

func galeraResult(nodes int, status, session map[string]string) Result {
	switch {
	case isOff(status["wsrep_ready"]):
		return Bad(Fail, "find out why it left the others: SHOW GLOBAL STATUS LIKE 'wsrep%', and its log",
			"a node of Galera that is not in sync with a majority: it refuses every order")
	case nodes == 1:
		return Bad(Warn, "start two more nodes", "a Galera cluster of one node: orders are as safe as its disk")
	case nodes == 2:
		return Bad(Warn, "start a third node, or garbd", "%s", stopsWithOne("a Galera cluster", nodes))
	case atoi(session["wsrep_sync_wait"])&1 == 0:
		return Bad(Warn, "SET GLOBAL wsrep_sync_wait = 1 on every node, and in my.cnf",
			"a Galera cluster of %d nodes with wsrep_sync_wait = %s: after a 201 through one node, a read through another can return 404",
			nodes, session["wsrep_sync_wait"])
	}

	return Good("a Galera cluster of %d nodes: commits are on all nodes, and reads wait for them", nodes)
}

package doctor

import "context"

// checkReplication reports how much acknowledged data a failover can lose, as far as the primary shows its replicas.
func (s *mysqlServer) checkReplication(ctx context.Context) Result {
	status, err := variables(ctx, s.Pool, "SHOW GLOBAL STATUS")
	if err != nil {
		return Unanswered(err, mysqlFix(err))
	}
	replicas := atoi(status["slaves_connected"]) // MySQL has no such variable; its dump threads are visible with PROCESS
	if !s.maria {
		err = s.Pool.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'").Scan(&replicas)
		if err != nil {
			return Unanswered(err, mysqlFix(err))
		}
	}
	return replicationResult(replicas, status, s.global, s.session)
}

// replicationResult judges the replication by the number of attached replicas, the global status, the global variables
// and those of the program's sessions.
func replicationResult(replicas int, status, global, session map[string]string) Result {
	if nodes := atoi(status["wsrep_cluster_size"]); nodes > 1 {
		if atoi(session["wsrep_sync_wait"])&1 == 0 {
			return Bad(Warn, "SET GLOBAL wsrep_sync_wait = 1 on every node, and in my.cnf",
				"a Galera cluster of %d nodes with wsrep_sync_wait = %s: after a 201 through one node, a read through another can return 404",
				nodes, session["wsrep_sync_wait"])
		}
		return Good("a Galera cluster of %d nodes: commits are on all nodes, and reads wait for them", nodes)
	}
	for _, primary := range []string{"source", "master"} { // MySQL 8.0.26 renamed them
		prefix := "rpl_semi_sync_" + primary
		if !isOn(status[prefix+"_status"]) || atoi(status[prefix+"_clients"]) == 0 {
			continue
		}
		if point := global[prefix+"_wait_point"]; point != "AFTER_SYNC" {
			return Bad(Warn, "SET GLOBAL "+prefix+"_wait_point = 'AFTER_SYNC', and in my.cnf",
				"replication is semi-synchronous with %s: a failover can lose data that was already read", point)
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

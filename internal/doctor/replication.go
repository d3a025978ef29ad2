package doctor

import "context"

// checkReplication says how much of what was answered a failover can lose, as far as the primary shows it.
func (s *mysqlServer) checkReplication(ctx context.Context) Result {
	status, err := variables(ctx, s.Pool, "SHOW GLOBAL STATUS")
	if err != nil {
		return Unanswered(err, mysqlCure(err))
	}
	replicas := atoi(status["slaves_connected"]) // MySQL has none, but lists the threads for who may see them (PROCESS)
	if !s.maria {
		err = s.Pool.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'").Scan(&replicas)
		if err != nil {
			return Unanswered(err, mysqlCure(err))
		}
	}
	return replicationResult(replicas, status, s.global, s.session)
}

// replicationResult judges the number of replicas that are attached by global status, global variables and those of the
// program's sessions.
func replicationResult(replicas int, status, global, session map[string]string) Result {
	if nodes := atoi(status["wsrep_cluster_size"]); nodes > 1 {
		if atoi(session["wsrep_sync_wait"])&1 == 0 {
			return Bad(Warn, "SET GLOBAL wsrep_sync_wait = 1 on every node, and in my.cnf",
				"a Galera cluster of %d nodes with wsrep_sync_wait = %s: a buyer whose 201 came through one node may hear 404 from another",
				nodes, session["wsrep_sync_wait"])
		}
		return Good("a Galera cluster of %d nodes: a commit is on all of them, and a read waits for it", nodes)
	}
	for _, primary := range []string{"source", "master"} { // MySQL 8.0.26 renamed them
		prefix := "rpl_semi_sync_" + primary
		if !isOn(status[prefix+"_status"]) || atoi(status[prefix+"_clients"]) == 0 {
			continue
		}
		if point := global[prefix+"_wait_point"]; point != "AFTER_SYNC" {
			return Bad(Warn, "SET GLOBAL "+prefix+"_wait_point = 'AFTER_SYNC', and in my.cnf",
				"replication is semi-synchronous, %s: what others have read already can be lost in a failover", point)
		}
		return Good("replication is semi-synchronous: a commit that was answered is on a replica, unless none confirmed it for %s ms",
			global[prefix+"_timeout"])
	}
	if replicas > 0 {
		return Bad(Warn, "semi-synchronous replication (AFTER_SYNC) or Galera, or never fail over to a replica that lags",
			"%d replicas, asynchronous: a failover loses the last orders that were answered 201", replicas)
	}
	return Good("no replica is attached, as far as this user may see: orders are as safe as this server's disk")
}

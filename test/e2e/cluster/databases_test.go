package cluster

import (
	"database/sql"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestGaleraFailover kills a node in mid-rush and leaves it dead, with sales in lanes lock and queue. Each sale has one server,
// whose proxy leads to that node, or three servers, each of which writes through another node first.
func TestGaleraFailover(t *testing.T) {
	t.Parallel()
	env.Full(t)
	for name, writers := range map[string]int{"one writer": 1, "three writers": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := env.StartGalera(t)
			start := func(t *testing.T, lane string) (s *rig.Stack, servers []*rig.Server) {
				s = rig.ServerStack(t, g.DSN(t)).In(lane)
				for node := range writers {
					at := env.StartProxy(t, g.Addrs(node)...).Addr
					servers = append(servers, s.With(led(s, g.Nodes[0], at)).Serve(t))
				}
				return s.With(led(s, g.Nodes[0], env.StartProxy(t, g.Addrs(0)...).Addr)), servers
			}
			together(t, start, g.Nodes[0].Kill, func() { g.Verdict(t, 2) })
		})
	}
}

// TestSemiSyncFailover promotes a replica in mid-rush, with sales in lanes lock and queue, when it has executed what it received.
// The primary is killed, becomes read-only and keeps its connections, or is frozen and goes on when the replica has
// replaced it. It then waits for the answer of a replica until the end of the test, as with AFTER_SYNC and a timeout that
// is longer than any outage.
func TestSemiSyncFailover(t *testing.T) {
	t.Parallel()
	env.Full(t)
	for name, end := range map[string]func(t *testing.T, primary *env.Database){
		"killed": func(_ *testing.T, primary *env.Database) { primary.Kill() },
		"frozen": func(t *testing.T, primary *env.Database) { require.NoError(t, primary.Pause()) },
		"read-only": func(t *testing.T, primary *env.Database) {
			onServer(t, primary, "SET GLOBAL read_only = ON", replication[primary.Kind].disable) // in this order
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary, replica := startSemiSync(t)
			at := env.StartProxy(t, primary.Addr)
			start := func(t *testing.T, lane string) (*rig.Stack, []*rig.Server) {
				s := rig.ServerStack(t, strings.Replace(primary.DSN(t), "root@", seller+"@", 1)).In(lane)
				s = s.With(led(s, primary, at.Addr))
				return s, []*rig.Server{s.Serve(t)}
			}
			together(t, start, func() { end(t, primary) }, func() {
				promote(t, replica)
				at.Lead(replica.Addr)
				if name == "frozen" {
					require.NoError(t, primary.Resume())
				}
			})
		})
	}
}

// led returns the setting that leads the servers of a stack to the address of a proxy instead of a database.
func led(s *rig.Stack, db *env.Database, proxy string) string {
	return "SECKILL_MYSQL_DSN=" + strings.Replace(s.Setting("SECKILL_MYSQL_DSN"), db.Addr, proxy, 1)
}

// seller is a user who cannot write to a read-only server, as root can.
const seller = "seller"

// replication is what differs between the kinds of servers in semi-synchronous replication.
var replication = map[env.Kind]struct {
	primary, replica []string // arguments
	attach           string   // to a host and a port
	replicas         string   // the status variable with their number
	disable          string   // of the primary
	stopReceiver     string
	status           string
	received         [2]string // columns of status: file and position up to which the replica has received,
	executed         [2]string // and executed
	promote          []string
}{
	env.MariaDB: {
		primary: []string{
			"--rpl-semi-sync-master-enabled=ON", "--rpl-semi-sync-master-wait-point=AFTER_SYNC", "--rpl-semi-sync-master-timeout=60000",
		},
		replica:      []string{"--rpl-semi-sync-slave-enabled=ON"},
		attach:       "CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='root'; START SLAVE",
		replicas:     "rpl_semi_sync_master_clients",
		disable:      "SET GLOBAL rpl_semi_sync_master_enabled = OFF",
		stopReceiver: "STOP SLAVE IO_THREAD",
		status:       "SHOW SLAVE STATUS",
		received:     [2]string{"Master_Log_File", "Read_Master_Log_Pos"},
		executed:     [2]string{"Relay_Master_Log_File", "Exec_Master_Log_Pos"},
		promote:      []string{"STOP SLAVE", "RESET SLAVE ALL"},
	},
	env.MySQL: {
		primary: []string{
			"--plugin-load-add=semisync_source.so",
			"--loose-rpl-semi-sync-source-enabled=ON", "--loose-rpl-semi-sync-source-wait-point=AFTER_SYNC", "--loose-rpl-semi-sync-source-timeout=60000",
		},
		replica:      []string{"--plugin-load-add=semisync_replica.so", "--loose-rpl-semi-sync-replica-enabled=ON"},
		attach:       "CHANGE REPLICATION SOURCE TO SOURCE_HOST='%s', SOURCE_PORT=%s, SOURCE_USER='root'; START REPLICA",
		replicas:     "rpl_semi_sync_source_clients",
		disable:      "SET GLOBAL rpl_semi_sync_source_enabled = OFF",
		stopReceiver: "STOP REPLICA IO_THREAD",
		status:       "SHOW REPLICA STATUS",
		received:     [2]string{"Source_Log_File", "Read_Source_Log_Pos"},
		executed:     [2]string{"Relay_Source_Log_File", "Exec_Source_Log_Pos"},
		promote:      []string{"STOP REPLICA", "RESET REPLICA ALL"},
	},
}

// startSemiSync starts a primary with a semi-synchronous replica, which is read-only.
func startSemiSync(t *testing.T) (primary, replica *env.Database) {
	t.Helper()
	kind := env.OneKind(t)
	how := replication[kind]
	args := []string{"--log-bin", "--binlog-format=ROW"}
	primary = kind.Start(t, slices.Concat(args, []string{"--server-id=1"}, how.primary)...)
	replica = kind.Start(t, slices.Concat(args, []string{"--server-id=2", "--read-only=ON"}, how.replica)...)

	host, port, err := net.SplitHostPort(primary.Addr)
	require.NoError(t, err)
	onServer(t, replica, strings.Split(fmt.Sprintf(how.attach, host, port), "; ")...)
	rig.Eventually(t, "the replica is attached", func() bool {
		return row(t, primary, "SHOW STATUS LIKE '"+how.replicas+"'")["Value"] == "1"
	})
	onServer(t, primary, "CREATE USER "+seller, "GRANT ALL ON `seckill\\_test\\_%`.* TO "+seller)
	return primary, replica
}

// promote makes a replica the primary when it has executed what it received.
func promote(t *testing.T, replica *env.Database) {
	t.Helper()
	how := replication[replica.Kind]
	onServer(t, replica, how.stopReceiver)
	rig.Eventually(t, "the replica has executed its relay log", func() bool {
		state := row(t, replica, how.status)
		require.Empty(t, state["Last_SQL_Error"])
		for i := range how.received {
			if state[how.received[i]] != state[how.executed[i]] {
				return false
			}
		}
		return true
	})
	onServer(t, replica, append(how.promote, "SET GLOBAL read_only = OFF")...)
}

// together runs failover in lanes lock and queue at once. The sales begin together, and kill and verdict are called once, when all
// have begun.
func together(t *testing.T, start func(t *testing.T, lane string) (*rig.Stack, []*rig.Server), kill, verdict func()) {
	t.Helper()
	kill, verdict = sync.OnceFunc(kill), sync.OnceFunc(verdict)
	var ready, begun, running sync.WaitGroup
	ready.Add(len(rig.LockAndQueue))
	begun.Add(len(rig.LockAndQueue))
	for _, lane := range rig.LockAndQueue {
		running.Go(func() { // t.Parallel could run one lane after the other
			isReady, hasBegun := sync.OnceFunc(ready.Done), sync.OnceFunc(begun.Done)
			defer func() { isReady(); hasBegun() }() // the others do not wait for a lane that failed before or is not selected
			t.Run(lane, func(t *testing.T) {
				s, servers := start(t, lane)
				failover(t, s, servers, fault{
					begin:   func() { isReady(); ready.Wait() },
					kill:    func() { hasBegun(); begun.Wait(); kill() },
					verdict: verdict,
				})
			})
		})
	}
	running.Wait()
}

// administrator returns a stack whose queries are those of the administrator of a server.
func administrator(m *env.Database) *rig.Stack {
	return &rig.Stack{Env: []string{"SECKILL_MYSQL_DSN=root@tcp(" + m.Addr + ")/"}}
}

func onServer(t *testing.T, m *env.Database, statements ...string) {
	t.Helper()
	for _, stmt := range statements {
		administrator(m).Exec(t, stmt)
	}
}

// row returns the columns of the first row of a query of the administrator.
func row(t *testing.T, m *env.Database, query string) map[string]string {
	t.Helper()
	byName := map[string]string{}
	administrator(m).Query(t, func(db *sql.DB) {
		rows := env.Must(db.QueryContext(t.Context(), query))(t)
		defer rows.Close()
		names := env.Must(rows.Columns())(t)
		values, into := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		require.True(t, rows.Next(), query)
		require.NoError(t, rows.Scan(into...))
		require.NoError(t, rows.Err())
		for i, name := range names {
			byName[name] = values[i].String
		}
	})
	return byName
}

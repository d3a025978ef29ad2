package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// zooKeeperJar is where Debian's package zookeeper puts the server. Its manifest names the jars that it needs.
const zooKeeperJar = "/usr/share/java/zookeeper.jar"

const zooKeeperServers = 3

// ZooKeeper is an ensemble of three ZooKeeper servers. Each can be killed, paused and restarted. A session expires 0.4 s
// after its last sign of life or later, as its client requests.
type ZooKeeper struct {
	Nodes []*Process
}

// RunZooKeeper starts an ensemble and returns when every server serves clients. ctx and StartTimeout bound only the
// start; the servers run until Stop. If Java or ZooKeeper is missing, the error wraps [exec.ErrNotFound].
func RunZooKeeper(ctx context.Context) (*ZooKeeper, error) {
	java, err := FindBinary("java")
	if err != nil {
		return nil, err
	}

	if _, err := os.Stat(zooKeeperJar); err != nil {
		return nil, fmt.Errorf("zookeeper is not installed (\"make deps\" installs it on Debian and Ubuntu): %w: %w", exec.ErrNotFound, err)
	}

	z := &ZooKeeper{}
	if err := z.run(ctx, java); err != nil {
		return nil, errors.Join(err, z.Stop())
	}

	return z, nil
}

func (z *ZooKeeper) run(ctx context.Context, java string) error {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()

	var members strings.Builder
	for i := range zooKeeperServers {
		s := &Process{bin: java, ready: zooKeeperReady, args: func(s *Process) []string {
			return []string{
				// A small heap, and the fastest start.
				"-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
				"-Dznode.container.checkIntervalMs=1000",             // empty containers go soon
				"-Dzookeeper.fastleader.maxNotificationInterval=500", // of 60 s: a lone server repeats its vote
				"-cp", zooKeeperJar, "org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(s.dir.path, "zoo.cfg"),
			}
		}}

		z.Nodes = append(z.Nodes, s)
		if err := s.prepare(ctx, 2); err != nil {
			return err
		}

		fmt.Fprintf(&members, "server.%d=127.0.0.1:%d:%d\n", i+1, s.peerPorts[0].number, s.peerPorts[1].number)
	}

	for i, n := range z.Nodes {
		if err := configureZooKeeper(n, i+1, members.String()); err != nil {
			return err
		}
	}

	return startTogether(ctx, z.Nodes)
}

func configureZooKeeper(n *Process, id int, members string) error {
	config := fmt.Sprintf(`dataDir=%s
clientPortAddress=127.0.0.1
clientPort=%d
tickTime=200
initLimit=15
syncLimit=25
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr
%s`, n.dir.path, n.port.number, members)
	return errors.Join(
		os.WriteFile(filepath.Join(n.dir.path, "myid"), []byte(fmt.Sprint(id)), 0o600),
		os.WriteFile(filepath.Join(n.dir.path, "zoo.cfg"), []byte(config), 0o600))
}

// Servers returns the addresses of all servers, running or not.
func (z *ZooKeeper) Servers() (addrs []string) {
	for _, n := range z.Nodes {
		addrs = append(addrs, n.Addr)
	}

	return addrs
}

// Leader returns the server that leads the ensemble. It waits for an election.
func (z *ZooKeeper) Leader(ctx context.Context) (*Process, error) {
	var leader *Process
	err := Until(ctx, func() error {
		for _, n := range z.Nodes {
			if mode, err := zooKeeperMode(ctx, n.Addr); err == nil && mode == "leader" {
				leader = n
				return nil
			}
		}
		return errors.New("the ZooKeeper ensemble has no leader")
	})

	return leader, err
}

// Stop kills the servers and removes their data. The ensemble cannot be used again.
func (z *ZooKeeper) Stop() error { return stopAll(z.Nodes) }

func zooKeeperReady(ctx context.Context, s *Process, _ *child) error {
	_, err := zooKeeperMode(ctx, s.Addr)
	return err
}

// zooKeeperMode returns what a server is in its ensemble, such as "leader".
func zooKeeperMode(ctx context.Context, addr string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return "", err
	}

	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return "", err
	}

	report, err := io.ReadAll(conn)
	if err != nil {
		return "", err
	}

	_, rest, ok := strings.Cut(string(report), "Mode: ")
	if !ok {
		return "", fmt.Errorf("%s serves no clients: %q", addr, report)
	}

	mode, _, _ := strings.Cut(rest, "\n")
	return mode, nil
}

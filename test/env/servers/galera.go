package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const galeraNodes = 3

// galeraProviders are where Debian and Fedora put the replication library.
var galeraProviders = []string{"/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so"}

// Galera is a cluster of three MariaDB nodes with wsrep_sync_wait=1. Each can be killed, paused and restarted, one at a
// time: two missing nodes stop the cluster. A node that starts again receives what it missed, or all data with rsync if
// the others keep no longer what it missed; one that resumes must not have missed more than the 16 MiB of gcache.size.
type Galera struct {
	Nodes []*Database
}

// RunGalera starts a cluster. ctx and StartTimeout bound only the start; the nodes run until Stop. If a program or library is
// missing, the error wraps [exec.ErrNotFound].
func RunGalera(ctx context.Context) (*Galera, error) {
	g := &Galera{}
	if err := g.run(ctx); err != nil {
		return nil, errors.Join(err, g.Stop())
	}

	return g, nil
}

// Stop kills the nodes and removes their data. They cannot be used again.
func (g *Galera) Stop() error { return stopAll(g.Nodes) }

// run starts the nodes as the members of a primary component that all of them left at once, as after a power failure.
// They form it again without a state transfer, because all have the same data.
func (g *Galera) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()

	bin, err := FindBinary("mariadbd")
	if err != nil {
		return err
	}

	provider, err := galeraProvider()
	if err != nil {
		return err
	}

	template, err := mariaDBTemplate(ctx, bin)
	if err != nil {
		return fmt.Errorf("create an empty MariaDB data directory: %w", err)
	}

	var peers []string
	for i := range galeraNodes {
		s := &Process{bin: bin, ready: galeraReady}
		g.Nodes = append(g.Nodes, &Database{s})
		if err := s.prepare(ctx, 3); err != nil {
			return err
		}
		peers = append(peers, s.peerPorts[0].addr())
		if err := errors.Join(writeGaleraState(s, template, i), transferAsRoot(s)); err != nil {
			return err
		}
	}

	for _, n := range g.Nodes {
		position := galeraState + ":0"
		n.args = func(s *Process) []string {
			return append(mariaDBArgs(s), galeraArgs(s, provider, position, peers)...)
		}
		n.before = func(ctx context.Context, s *Process) (err error) {
			position, err = galeraPosition(ctx, s, position)
			return err
		}
	}

	return startTogether(ctx, g.Nodes)
}

func galeraProvider() (string, error) {
	for _, path := range galeraProviders {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}

	return "", fmt.Errorf("galera-4 is not installed (\"make test\" installs it): %w", exec.ErrNotFound)
}

// galeraPosition returns the last transaction of a node that ran before. A killed node has not stored it, and would
// otherwise receive all data anew.
func galeraPosition(ctx context.Context, s *Process, first string) (position string, err error) {
	if _, err := os.Stat(filepath.Join(s.dataDir(), "galera.cache")); errors.Is(err, os.ErrNotExist) {
		return first, nil
	}

	out, err := exec.CommandContext(ctx, s.bin, append(s.args(s), "--wsrep-recover")...).CombinedOutput() //nolint:gosec // FindBinary looked it up
	found := recoveredPosition.FindSubmatch(out)
	if err != nil || found == nil {
		return "", fmt.Errorf("find the last transaction of a node of Galera: %w\n%s", err, lastLines(out))
	}

	return string(found[1]), nil
}

// recoveredPosition matches the result of mariadbd --wsrep-recover.
var recoveredPosition = regexp.MustCompile(`WSREP: Recovered position: (\S+)`)

// transferAsRoot makes the state transfer of a node work as root: its rsync daemon would write as another user. The
// script of the transfer reads a file first that calls the daemon in another way.
func transferAsRoot(s *Process) error {
	if os.Geteuid() != 0 {
		return nil
	}

	file := filepath.Join(s.dir.path, "rsync")
	s.env = append(os.Environ(), "BASH_ENV="+file)
	return os.WriteFile(file, []byte(`rsync() {
  case "$*" in *--daemon*) exec rsync --dparam=uid=root --dparam=gid=root "$@" ;; esac
  command rsync "$@"
}
`), 0o600)
}

func galeraArgs(s *Process, provider, position string, peers []string) []string {
	return []string{
		"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--innodb-buffer-pool-size=32M",
		"--wsrep-on=ON", "--wsrep-provider=" + provider, "--wsrep-sync-wait=1",
		"--wsrep-sst-method=rsync", "--wsrep-sst-receive-address=" + s.peerPorts[2].addr(),
		"--wsrep-cluster-name=" + peers[0], "--wsrep-cluster-address=gcomm://" + strings.Join(peers, ","),
		"--wsrep-node-address=" + s.peerPorts[0].addr(), "--wsrep-node-incoming-address=" + s.Addr,
		"--wsrep-start-position=" + position,
		"--wsrep-provider-options=gmcast.listen_addr=tcp://" + s.peerPorts[0].addr() +
			";ist.recv_addr=" + s.peerPorts[1].addr() + ";gcache.size=16M",
	}
}

// galeraState is the id of the common state of the nodes.
const galeraState = "5ec51110-0000-11ee-8000-000000000000"

func writeGaleraState(s *Process, template string, i int) error {
	id := func(i int) string { return fmt.Sprintf("5ec5111%d-0000-11ee-8000-000000000000", i+1) }
	var view strings.Builder
	fmt.Fprintf(&view, "my_uuid: %s\n#vwbeg\nview_id: 3 %s 3\nbootstrap: 0\n", id(i), id(0))
	for n := range galeraNodes {
		fmt.Fprintf(&view, "member: %s 0\n", id(n))
	}

	view.WriteString("#vwend\n")
	state := "# GALERA saved state\nversion: 2.1\nuuid:    " + galeraState + "\nseqno:   0\nsafe_to_bootstrap: 0\n"
	return errors.Join(
		copyTemplate(s, template),
		os.WriteFile(filepath.Join(s.dataDir(), "gvwstate.dat"), []byte(view.String()), 0o600),
		os.WriteFile(filepath.Join(s.dataDir(), "grastate.dat"), []byte(state), 0o600))
}

func galeraReady(ctx context.Context, s *Process, c *child) error {
	if err := databaseReady(ctx, s, c); err != nil {
		return err
	}

	return galeraSize(ctx, s.Addr, galeraNodes)
}

func galeraSize(ctx context.Context, addr string, n int) error {
	status := map[string]string{"wsrep_cluster_size": "", "wsrep_ready": ""}
	for name := range status {
		var value string
		if err := query(ctx, addr, "SHOW GLOBAL STATUS LIKE '"+name+"'", &name, &value); err != nil {
			return err
		}
		status[name] = value
	}

	if status["wsrep_ready"] != "ON" || status["wsrep_cluster_size"] != strconv.Itoa(n) {
		return fmt.Errorf("not a node of a cluster of %d: %v", n, status)
	}

	return nil
}

// Formed waits until a node is in sync with a cluster of n nodes. Error: not in time.
func (g *Galera) Formed(ctx context.Context, node, n int) error {
	return Until(ctx, func() error { return galeraSize(ctx, g.Nodes[node].Addr, n) })
}

// Addrs returns the addresses of the nodes, those from node first on in front.
func (g *Galera) Addrs(first int) (addrs []string) {
	for i := range g.Nodes {
		addrs = append(addrs, g.Nodes[(first+i)%len(g.Nodes)].Addr)
	}

	return addrs
}

// CreateDatabase creates an empty utf8mb4 database and returns its DSN on the first node, which every node can open.
func (g *Galera) CreateDatabase(ctx context.Context, name string) (string, error) {
	dsn, err := g.Nodes[0].CreateDatabase(ctx, name)
	if err != nil {
		return "", err
	}

	for _, n := range g.Nodes[1:] {
		if err := Until(ctx, func() error { return execute(ctx, AdminConfig(n.Addr), "USE "+name) }); err != nil {
			return "", fmt.Errorf("a node of Galera has no database %s: %w", name, err)
		}
	}

	return dsn, nil
}

package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

const galeraNodes = 3

// galeraProviders are where Debian and Fedora put the replication library.
var galeraProviders = []string{"/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so"}

// Galera is a cluster of three MariaDB nodes with wsrep_sync_wait=1. Each can be killed and paused. A killed node does
// not come back: its Restart fails, because no method of state transfer is installed.
type Galera struct {
	Nodes []*MariaDB
}

// RunGalera starts a cluster and returns when all nodes are in sync. ctx and a timeout of 30 s bound only the start; the
// nodes run until Stop. options are appended to wsrep_provider_options, such as "evs.suspect_timeout=PT2S".
func RunGalera(ctx context.Context, options ...string) (*Galera, error) {
	g := &Galera{}
	if err := g.run(ctx, options); err != nil {
		return nil, errors.Join(err, g.Stop())
	}
	return g, nil
}

// Stop kills the nodes and removes their data. The cluster cannot be used again.
func (g *Galera) Stop() error {
	var errs []error
	for _, n := range g.Nodes {
		errs = append(errs, n.Stop())
	}
	return errors.Join(errs...)
}

// run starts the nodes as the members of a primary component that all of them left at once, as after a power failure.
// They form it again without a state transfer, because all have the same data.
func (g *Galera) run(ctx context.Context, options []string) error {
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
	template, err := dataTemplate(ctx, bin)
	if err != nil {
		return fmt.Errorf("create an empty MariaDB data directory: %w", err)
	}
	var peers []string
	for i := range galeraNodes {
		dir, err := newFolder()
		if err != nil {
			return err
		}
		s := &Process{bin: bin, dir: dir, ready: galeraReady}
		g.Nodes = append(g.Nodes, &MariaDB{Process: s})
		for _, p := range []**port{&s.port, &s.peerPorts[0], &s.peerPorts[1]} {
			if *p, err = reservePort(ctx); err != nil {
				return err
			}
		}
		g.Nodes[i].Addr = s.addr()
		peers = append(peers, s.peerPorts[0].addr())
		if err := writeGaleraState(s, template, i); err != nil {
			return err
		}
	}
	for _, n := range g.Nodes {
		n.args = func(s *Process) []string {
			return append(mariaDBArgs(s), galeraArgs(s, provider, peers, options)...)
		}
	}
	errs := make([]error, len(g.Nodes))
	var wg sync.WaitGroup
	for i, n := range g.Nodes {
		wg.Go(func() { errs[i] = n.start(ctx) }) // none is ready before the others run
	}
	wg.Wait()
	return errors.Join(errs...)
}

func galeraProvider() (string, error) {
	for _, path := range galeraProviders {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("galera-4 is not installed (\"make deps\" installs it on Debian and Ubuntu): %w", exec.ErrNotFound)
}

func galeraArgs(s *Process, provider string, peers, options []string) []string {
	return []string{
		"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--innodb-buffer-pool-size=32M",
		"--wsrep-on=ON", "--wsrep-provider=" + provider, "--wsrep-sst-method=skip", "--wsrep-sync-wait=1",
		"--wsrep-cluster-name=" + peers[0], "--wsrep-cluster-address=gcomm://" + strings.Join(peers, ","),
		"--wsrep-node-address=" + s.peerPorts[0].addr(), "--wsrep-node-incoming-address=" + s.addr(),
		"--wsrep-start-position=" + galeraState + ":0",
		"--wsrep-provider-options=" + strings.Join(append([]string{
			"gmcast.listen_addr=tcp://" + s.peerPorts[0].addr(), "ist.recv_addr=" + s.peerPorts[1].addr(), "gcache.size=16M",
		}, options...), ";"),
	}
}

// galeraState is the id of the common state of the nodes.
const galeraState = "5ec51110-0000-11ee-8000-000000000000"

// writeGaleraState creates the data directory of node i.
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
		os.CopyFS(s.dataDir(), os.DirFS(template)),
		os.Mkdir(filepath.Join(s.dir.path, "tmp"), 0o700),
		os.WriteFile(filepath.Join(s.dataDir(), "gvwstate.dat"), []byte(view.String()), 0o600),
		os.WriteFile(filepath.Join(s.dataDir(), "grastate.dat"), []byte(state), 0o600))
}

// galeraReady returns nil if the node answers and the cluster is complete.
func galeraReady(ctx context.Context, s *Process, c *child) error {
	if err := mariaDBReady(ctx, s, c); err != nil {
		return err
	}
	return GaleraSize(ctx, s.addr(), galeraNodes)
}

// GaleraSize returns nil if a node is in sync with a cluster of n nodes.
func GaleraSize(ctx context.Context, addr string, n int) error {
	db, err := openAdmin(AdminConfig(addr))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	status := map[string]string{"wsrep_cluster_size": "", "wsrep_ready": ""}
	for name := range status {
		var value string
		if err := db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE '"+name+"'").Scan(&name, &value); err != nil {
			return err
		}
		status[name] = value
	}
	if status["wsrep_ready"] != "ON" || status["wsrep_cluster_size"] != strconv.Itoa(n) {
		return fmt.Errorf("not a node of a cluster of %d: %v", n, status)
	}
	return nil
}

package doctor

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"seckill/internal/kit/loop"
)

// ZooKeeper returns the check of the ensemble that holds the user locks.
func ZooKeeper(servers []string) Group {
	return Group{Checks: []Check{{Name: "locks.ensemble", Run: func(ctx context.Context) Result {
		return ensembleResult(loop.All(servers, func(addr string) zooKeeperReport { return readZooKeeper(ctx, addr) }))
	}}}}
}

// A zooKeeperReport is the answer of one server to srvr, the command that every server allows by default.
type zooKeeperReport struct {
	addr string
	// It did not answer, or serves no clients.
	err error
	// Such as 3.8.0.
	version string
	// Leader, follower, observer or standalone.
	mode string
}

func readZooKeeper(ctx context.Context, addr string) zooKeeperReport {
	r := zooKeeperReport{addr: addr}
	text, err := srvr(ctx, addr)
	if err != nil {
		r.err = err
		return r
	}

	_, version, _ := strings.Cut(text, "Zookeeper version: ")
	r.version, _, _ = strings.Cut(version, "-")

	_, mode, serves := strings.Cut(text, "\nMode: ")
	r.mode, _, _ = strings.Cut(mode, "\n")
	if !serves {
		r.err = fmt.Errorf("it serves no clients: %s", oneLine(text))
	}

	return r
}

// srvr needs a context with a deadline, as every check has.
func srvr(ctx context.Context, addr string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()

	// Sooner than that, so that the other servers' answers are reported.
	end, _ := ctx.Deadline()
	if err := conn.SetDeadline(end.Add(-deadline / 10)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return "", err
	}

	text, err := io.ReadAll(io.LimitReader(conn, 64<<10))
	return string(text), err
}

func ensembleResult(reports []zooKeeperReport) Result {
	const start = "start the servers, and check SECKILL_LOCK_NODES, their logs and the firewalls in between"
	var up, leaders []string
	var down error
	for _, r := range reports {
		if r.err != nil {
			down = fmt.Errorf("%s: %w", r.addr, r.err)
			continue
		}

		up = append(up, r.addr)
		if _, v := parseVersion(r.version); slices.Compare(v, []int{3, 5}) < 0 {
			return Bad(Fail, "upgrade to ZooKeeper 3.5 or newer, which has container nodes", "%s has ZooKeeper %s", r.addr, r.version)
		}

		if r.mode == "leader" || r.mode == "standalone" {
			leaders = append(leaders, r.addr)
		}
	}

	slices.Sort(leaders)
	switch {
	case len(up) == 0:
		r := FromError(Fail, start, "no server serves clients, so lane lock sells nothing: ", down)
		r.Unasked = true
		return r
	case len(leaders) > 1:
		return Bad(Fail, "name the servers of one ensemble", "%s lead different ensembles: two buyers' requests could hold the same lock", strings.Join(leaders, " and "))
	case down != nil:
		return FromError(Warn, start, fmt.Sprintf("%d of %d servers serve clients: ", len(up), len(reports)), down)
	case len(reports) < 3:
		return Bad(Warn, "name at least three servers of an ensemble", "SECKILL_LOCK_NODES names %d: no order is placed while it is down", len(reports))
	}

	return Good("%d servers of one ensemble", len(up))
}

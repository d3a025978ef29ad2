package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
)

// checkPorts returns an error if the server could not listen at its addresses. Serve calls it before it creates or changes
// anything, and opens the ports when the server is ready.
func checkPorts(ctx context.Context, cfg Config) error {
	for _, port := range [][2]string{{"--addr", cfg.Addr}, {"--ops-addr", cfg.OpsAddr}} {
		if port[1] == "" {
			continue
		}

		l, err := listen(ctx, port[0], port[1])
		if err != nil {
			return err
		}

		if err := l.Close(); err != nil {
			return fmt.Errorf("%s: %w", port[0], err)
		}
	}

	return nil
}

func listen(ctx context.Context, flag, addr string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	change := "name an address of this machine, such as 127.0.0.1:8081"

	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		change = "another program uses the port, maybe another seckill; stop it, or name a free port, such as 127.0.0.1:8081"
	case errors.Is(err, fs.ErrPermission):
		change = "ports below 1024 need privileges; name a higher one, such as 127.0.0.1:8081"
	}

	return nil, fmt.Errorf("%s: cannot listen at %s; %s (%w)", flag, addr, change, err)
}

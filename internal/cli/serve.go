package cli

import (
	"os/signal"
	"syscall"

	"seckill/internal/app"
)

type serveCmd struct{}

// Run runs the server until the context ends.
func (serveCmd) Run(e *app.Env) error {
	// Otherwise the first line after the end of the log's reader would end the server.
	signal.Ignore(syscall.SIGPIPE)

	return app.Serve(e)
}

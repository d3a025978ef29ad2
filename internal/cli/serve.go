package cli

import "seckill/internal/app"

type serveCmd struct{}

// Run runs the server until the context ends.
func (serveCmd) Run(e *app.Env) error { return app.Serve(e) }

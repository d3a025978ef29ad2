package cli

import (
	"time"

	"seckill/internal/app"
)

type serveCmd struct {
	ClockOffset time.Duration `hidden:"" help:"Difference of the server's clock from that of the machine, for torture."`
}

// Run runs the server until the context ends.
func (s serveCmd) Run(e *app.Env) error {
	if s.ClockOffset != 0 {
		e.Tuning.Now = func() time.Time { return time.Now().Add(s.ClockOffset) }
	}
	return app.Serve(e)
}

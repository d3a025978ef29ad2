package handler

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

// readyTimeout bounds all checks of /readyz. A check that takes longer has failed.
const readyTimeout = 2 * time.Second

// Check reports whether a dependency works. A non-nil error is the reason why it does not. Checks run concurrently and
// must return when ctx is done.
type Check func(ctx context.Context) error

type healthOut struct {
	Status  string `json:"status"`
	Version string `json:"version,omitempty"`
}

// health answers 200 while the process runs, even if a dependency is down: a restart would not repair that.
func (a *api) health(c *gin.Context) error {
	return writeJSON(c, http.StatusOK, healthOut{Status: "ok", Version: a.Version})
}

type notReadyError struct{ reasons map[string]error }

func (e *notReadyError) Error() string { return fmt.Sprintf("not ready: %v", e.reasons) }
func (e *notReadyError) Unwrap() error { return domain.ErrUnavailable }

// detail lists the failed dependencies without the errors, which may contain addresses.
func (e *notReadyError) detail() string {
	return "not ready: " + strings.Join(slices.Sorted(maps.Keys(e.reasons)), ", ")
}

func ready(checks map[string]Check) func(*gin.Context) error {
	return func(c *gin.Context) error {
		ctx, cancel := context.WithTimeout(c.Request.Context(), readyTimeout)
		defer cancel()

		names := slices.Collect(maps.Keys(checks))
		errs := loop.All(names, func(name string) error { return checks[name](ctx) })

		down := map[string]error{}
		for i, name := range names {
			if errs[i] != nil {
				down[name] = errs[i]
			}
		}

		if len(down) > 0 {
			return &notReadyError{down}
		}

		return writeJSON(c, http.StatusOK, healthOut{Status: "ok"})
	}
}

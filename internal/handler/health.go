package handler

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/service"
)

// readyTimeout bounds /readyz: a dependency that hangs is not ready.
const readyTimeout = 2 * time.Second

// Check asks a dependency whether it works; nil means that it does.
type Check func(ctx context.Context) error

// healthOut is the answer of a server that is well.
type healthOut struct {
	Status string `json:"status"`
}

// health says that the process runs, whatever became of its dependencies: restarting it would not bring them back.
func health(c *gin.Context) error { return writeJSON(c, http.StatusOK, healthOut{"ok"}) }

// notReadyError says which checks failed, and why.
type notReadyError struct{ reasons map[string]error }

func (e *notReadyError) Error() string { return fmt.Sprintf("not ready: %v", e.reasons) }
func (e *notReadyError) Unwrap() error { return service.ErrUnavailable }

// detail names the checks; the reasons, which hold addresses, are for the log.
func (e *notReadyError) detail() string {
	return "not ready: " + strings.Join(slices.Sorted(maps.Keys(e.reasons)), ", ")
}

// ready says whether orders can be taken: every dependency answers.
func ready(checks map[string]Check) func(*gin.Context) error {
	return func(c *gin.Context) error {
		ctx, cancel := context.WithTimeout(c.Request.Context(), readyTimeout)
		defer cancel()
		var (
			wg   sync.WaitGroup
			mu   sync.Mutex
			down = map[string]error{}
		)
		for name, check := range checks {
			wg.Go(func() {
				if err := check(ctx); err != nil {
					mu.Lock()
					defer mu.Unlock()
					down[name] = err
				}
			})
		}
		wg.Wait()
		if len(down) > 0 {
			return &notReadyError{down}
		}
		return writeJSON(c, http.StatusOK, healthOut{"ok"})
	}
}

package handler

import (
	"context"
	"fmt"
	"net/http"
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

// ready says whether orders can be taken: every dependency answers.
func ready(checks map[string]Check) func(*gin.Context) error {
	return func(c *gin.Context) error {
		ctx, cancel := context.WithTimeout(c.Request.Context(), readyTimeout)
		defer cancel()
		var (
			wg   sync.WaitGroup
			mu   sync.Mutex
			down []string
		)
		for name, check := range checks {
			wg.Go(func() {
				if err := check(ctx); err != nil {
					mu.Lock()
					defer mu.Unlock()
					down = append(down, fmt.Sprintf("%s: %v", name, err))
				}
			})
		}
		wg.Wait()
		if len(down) > 0 {
			return fmt.Errorf("%w: %s", service.ErrUnavailable, strings.Join(down, "; "))
		}
		return writeJSON(c, http.StatusOK, healthOut{"ok"})
	}
}

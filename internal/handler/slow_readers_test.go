package handler_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// stalled is the connection of a client that reads nothing: its first write blocks until resume is closed.
type stalled struct {
	http.ResponseWriter

	began  *sync.WaitGroup
	resume <-chan struct{}
	once   sync.Once
}

func (s *stalled) Write(b []byte) (int, error) {
	s.once.Do(s.began.Done)
	<-s.resume
	return len(b), nil
}

// TestSlowReadersHoldNothing: the limits of concurrent reads protect the database. A client that reads its answer slowly,
// or not at all, keeps nobody else out.
func TestSlowReadersHoldNothing(t *testing.T) {
	t.Parallel()
	const readers = 65 // one more than any limit
	for _, path := range []string{
		"/api/v1/me", "/api/v1/me/export", "/api/v1/orders", "/api/v1/shops", "/api/v1/admin/orders.csv", "/api/v1/admin/payments.csv", "/api/v1/admin/audit.csv",
		"/shop/of/type?typeId=1&current=1",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			c := e.admin()
			resume := make(chan struct{})
			var began, ended sync.WaitGroup
			defer ended.Wait()
			defer close(resume)
			for range readers {
				began.Add(1)
				ended.Go(func() {
					e.engine.ServeHTTP(&stalled{ResponseWriter: httptest.NewRecorder(), began: &began, resume: resume}, c.request("", http.MethodGet, path, nil))
				})
			}
			began.Wait()
			rec := httptest.NewRecorder()
			e.engine.ServeHTTP(rec, c.request("", http.MethodGet, path, nil))
			assert.Equal(t, http.StatusOK, rec.Code, rec.Body)
			assert.NotContains(t, rec.Body.String(), `"success":false`)
		})
	}
}

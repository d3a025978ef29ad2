package domain

import "time"

// Trace continues the trace of a sampled request in the work that is done outside its context: in a batch, and in the
// queue. It is not modified.
type Trace struct {
	// The span of the request, as a W3C traceparent.
	Parent string
	// When the wait for the batch began.
	Since time.Time
}

// Waiting returns the trace with a wait that begins now. It returns nil for nil.
func (t *Trace) Waiting() *Trace {
	if t == nil {
		return nil
	}
	return &Trace{Parent: t.Parent, Since: time.Now()}
}

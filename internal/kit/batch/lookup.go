package batch

import "context"

// Found is the result of one key of a shared read.
type Found[V any] struct {
	Value V
	Err   error
}

// NewLookup returns a Batcher whose calls share reads. A key that read does not return has the zero value. fail translates
// the errors of calls that were not run.
func NewLookup[K comparable, V any](
	read func(ctx context.Context, keys []K) (map[K]V, error), fail func(error) error,
) *Batcher[K, Found[V]] {
	return New(Config[K, Found[V]]{
		Run: func(ctx context.Context, keys []K) []Found[V] {
			values, err := read(ctx, keys)
			found := make([]Found[V], len(keys))
			for i, k := range keys {
				found[i] = Found[V]{values[k], err}
			}
			return found
		},
		Fail: func(err error) Found[V] { return Found[V]{Err: fail(err)} },
	})
}

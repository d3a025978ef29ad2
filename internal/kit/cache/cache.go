// Package cache provides caches in memory with bounds, expiry and shared loads: otter behind a small generic type.
//
// The compiler translates generic code for every combination of types again, in each package that reaches it. otter has
// a thousand functions, and nine combinations were most of the time in which packages handler and auth compiled. So
// otter is translated once, for type any, and Cache converts keys and values, which allocates in each access.
package cache

import (
	"context"
	"iter"
	"time"

	"github.com/maypok86/otter/v2"
)

// Options of a cache. Exactly one of MaxEntries and MaxWeight is required, the latter with Weight. At most one TTL may be
// set; without one, entries do not expire.
type Options[V any] struct {
	// Approximately: beyond it, entries that are unlikely to be used again are evicted.
	MaxEntries int
	MaxWeight  uint64
	Weight     func(V) uint32

	// The life of an entry since it was set.
	TTL time.Duration
	// The life of an entry since it was set or read, to within a second.
	IdleTTL time.Duration
}

// Cache is safe for concurrent use. Keys must not refer to more memory than their own, which the cache keeps alive.
type Cache[K comparable, V any] struct {
	entries entries
}

// entries is implemented by *otter.Cache[any, any]. It hides its methods, which importing packages would translate again.
type entries interface {
	All() iter.Seq2[any, any]
	Get(ctx context.Context, key any, l otter.Loader[any, any]) (any, error)
	GetIfPresent(key any) (any, bool)
	Invalidate(key any) (any, bool)
	InvalidateAll()
	Set(key, value any) (any, bool)
	StopAllGoroutines() bool
}

// New returns an empty cache. It panics without a bound, or with two.
func New[K comparable, V any](o Options[V]) *Cache[K, V] {
	if o.MaxEntries == 0 && o.MaxWeight == 0 {
		panic("cache: without a bound")
	}

	untyped := Options[any]{
		MaxEntries: o.MaxEntries,
		MaxWeight:  o.MaxWeight,
		TTL:        o.TTL,
		IdleTTL:    o.IdleTTL,
	}

	if o.Weight != nil {
		untyped.Weight = func(v any) uint32 { value, _ := v.(V); return o.Weight(value) }
	}

	return &Cache[K, V]{newEntries(untyped)}
}

//go:noinline // or importing packages would translate otter
func newEntries(o Options[any]) entries {
	options := otter.Options[any, any]{MaximumSize: o.MaxEntries, MaximumWeight: o.MaxWeight}
	if o.Weight != nil {
		options.Weigher = func(_, v any) uint32 { return o.Weight(v) }
	}

	switch {
	case o.IdleTTL > 0:
		options.ExpiryCalculator = otter.ExpiryAccessing[any, any](o.IdleTTL)
	case o.TTL > 0:
		options.ExpiryCalculator = otter.ExpiryWriting[any, any](o.TTL)
	}

	return otter.Must(&options)
}

// Get returns the value of key, if it is cached.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	v, cached := c.entries.GetIfPresent(key)
	value, _ := v.(V)
	return value, cached
}

// Load returns the value of key. If it is not cached, load reads it; concurrent callers share the call of the first of
// them and its result, unless the entry has been set or deleted meanwhile, or the first caller's ctx has ended and load
// failed: then load is called again. An error of load is returned and not cached.
func (c *Cache[K, V]) Load(ctx context.Context, key K, load func(ctx context.Context) (V, error)) (V, error) {
	v, err := c.entries.Get(ctx, key, otter.LoaderFunc[any, any](func(ctx context.Context, _ any) (any, error) { return load(ctx) }))
	if err != nil {
		var none V
		return none, err
	}

	value, _ := v.(V)
	return value, nil
}

// Set sets the value of key.
func (c *Cache[K, V]) Set(key K, value V) { c.entries.Set(key, value) }

// Delete removes an entry.
func (c *Cache[K, V]) Delete(key K) { c.entries.Invalidate(key) }

// Clear removes all entries.
func (c *Cache[K, V]) Clear() { c.entries.InvalidateAll() }

// All returns the entries in no order. Entries that are set meanwhile may be left out.
func (c *Cache[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for k, v := range c.entries.All() {
			key, _ := k.(K)
			value, _ := v.(V)
			if !yield(key, value) {
				return
			}
		}
	}
}

// Close ends the goroutine of a cache with a TTL. The garbage collector does the same for a cache that is not closed.
func (c *Cache[K, V]) Close() { c.entries.StopAllGoroutines() }

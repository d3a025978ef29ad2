package picture

import (
	"context"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/cache"
)

// Store stores pictures by their ids. Error: domain.ErrUnavailable.
type Store interface {
	// AddPicture stores a picture. Storing it again has no effect.
	AddPicture(ctx context.Context, p *Picture) error
	// Picture returns a stored picture. Error: domain.ErrNotFound.
	Picture(ctx context.Context, id string) (Picture, error)
}

// maxCached bounds the pictures in memory, in bytes.
const maxCached = 32 << 20

// Service converts, stores and serves pictures. It is safe for concurrent use.
type Service struct {
	store Store
	now   func() time.Time
	// A semaphore of one element: a conversion needs much memory.
	converting chan struct{}
	cache      *cache.Cache[string, *Picture]
}

// New returns a Service that stores pictures in store.
func New(store Store, now func() time.Time) *Service {
	return &Service{
		store:      store,
		now:        now,
		converting: make(chan struct{}, 1),
		cache: cache.New[string](cache.Options[*Picture]{
			MaxWeight: maxCached, Weight: func(p *Picture) uint32 { return uint32(len(p.JPEG)) }, //nolint:gosec // at most maxSize
		}),
	}
}

// Add converts and stores an upload. It waits until no other upload of this process is being converted.
// Errors: those of Convert, ErrUnavailable.
func (s *Service) Add(ctx context.Context, upload []byte) (Picture, error) {
	select {
	case s.converting <- struct{}{}:
		defer func() { <-s.converting }()
	case <-ctx.Done():
		return Picture{}, domain.ErrUnavailable
	}

	p, err := Convert(ctx, upload, domain.Moment(s.now()))
	if err != nil {
		return Picture{}, err
	}

	return p, s.store.AddPicture(ctx, &p)
}

// Cached returns a picture from memory, or nil.
func (s *Service) Cached(id string) *Picture {
	p, _ := s.cache.Get(id)
	return p
}

// readTimeout bounds one read of a picture, which its callers share.
const readTimeout = 2 * time.Second

// Get returns a picture, which must not be modified. Errors: ErrNotFound, ErrUnavailable.
func (s *Service) Get(ctx context.Context, id string) (*Picture, error) {
	return s.cache.Load(ctx, id, func(ctx context.Context) (*Picture, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		p, err := s.store.Picture(ctx, id)
		return &p, err
	})
}

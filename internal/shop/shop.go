// Package shop contains the shops of the hm-dianping course, in which vouchers are redeemed.
package shop

import (
	"context"
	"math"
	"time"
)

// Shop is where a voucher is redeemed.
type Shop struct {
	ID        int64
	Name      string
	TypeID    int64
	Images    string // comma-separated URLs
	Area      string
	Address   string
	X, Y      float64 // longitude, latitude
	AvgPrice  int64   // cents
	Sold      int
	Comments  int
	Score     int // tenths: 47 is 4.7
	OpenHours string
	CreatedAt time.Time
}

// Place is a point on the earth: longitude and latitude in degrees.
type Place struct{ X, Y float64 }

// earthRadius is the mean radius in metres; the earth is treated as a sphere.
const earthRadius = 6371e3

// Distance returns the great-circle distance from a place in metres (haversine formula).
func (s *Shop) Distance(from Place) float64 {
	const degree = math.Pi / 180
	dx, dy := math.Sin((s.X-from.X)*degree/2), math.Sin((s.Y-from.Y)*degree/2)
	h := dy*dy + math.Cos(s.Y*degree)*math.Cos(from.Y*degree)*dx*dx
	return 2 * earthRadius * math.Asin(math.Sqrt(math.Min(1, h)))
}

// Filter selects shops of one type: nearest first if Near is set, otherwise by id.
type Filter struct {
	TypeID int64
	Near   *Place
	Skip   int
	Limit  int
}

// Store reads shops. Errors: domain.ErrNotFound, ErrUnavailable.
type Store interface {
	Shop(ctx context.Context, id int64) (Shop, error)
	ListShops(ctx context.Context, f Filter) ([]Shop, error)
}

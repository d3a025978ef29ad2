// Package shop contains the shops in which vouchers are redeemed. Their data follows the hm-dianping course.
package shop

import (
	"context"
	"fmt"
	"math"
	"time"

	"seckill/internal/domain"
)

// Shop is where a voucher is redeemed.
type Shop struct {
	ID        int64
	Name      string
	TypeID    int64  // the category on the pages of hm-dianping
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
	UpdatedAt time.Time
}

// Fields are the fields that an operator can set in a new shop and change later. A nil field is absent.
type Fields struct {
	Name, Area, Address, OpenHours *string
	TypeID                         *int64
}

// Limits of the fields: the lengths of the columns, and the highest category.
const maxName, maxArea, maxAddress, maxOpenHours, maxTypeID = 128, 128, 255, 32, 1000

// New returns a shop with the fields, which need a name. Error: *domain.InvalidError.
func New(f Fields, now time.Time) (Shop, error) {
	if f.Name == nil {
		return Shop{}, domain.Invalid("name", "is required")
	}
	s := Shop{TypeID: 1, CreatedAt: now, UpdatedAt: now}
	err := f.Apply(&s)
	return s, err
}

// Apply sets the present fields on s. After an error the contents of s are undefined. Error: *domain.InvalidError.
func (f Fields) Apply(s *Shop) error {
	var bad domain.InvalidError
	domain.SetText(&s.Name, f.Name, "name", 1, maxName, &bad)
	domain.SetText(&s.Area, f.Area, "area", 0, maxArea, &bad)
	domain.SetText(&s.Address, f.Address, "address", 0, maxAddress, &bad)
	domain.SetText(&s.OpenHours, f.OpenHours, "open_hours", 0, maxOpenHours, &bad)
	if f.TypeID != nil {
		if s.TypeID = *f.TypeID; s.TypeID < 1 || s.TypeID > maxTypeID {
			bad.Add("type_id", "must be between 1 and %d", maxTypeID)
		}
	}
	return bad.Err()
}

// Changes lists the changed fields, for the audit log.
func (s *Shop) Changes(after *Shop) string {
	text := fmt.Sprintf("shop %d", after.ID)
	for _, f := range []struct{ name, was, is string }{
		{"name", s.Name, after.Name}, {"area", s.Area, after.Area}, {"address", s.Address, after.Address},
		{"open_hours", s.OpenHours, after.OpenHours}, {"type_id", fmt.Sprint(s.TypeID), fmt.Sprint(after.TypeID)},
	} {
		if f.was != f.is {
			text += fmt.Sprintf("; %s: %q -> %q", f.name, f.was, f.is)
		}
	}
	return text
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

// Store stores shops. Each method is one transaction. Errors: domain.ErrNotFound, ErrUnavailable.
type Store interface {
	Shop(ctx context.Context, id int64) (Shop, error)
	ListShops(ctx context.Context, f Filter) ([]Shop, error)
	// Shops returns a page of all shops, newest first.
	Shops(ctx context.Context, p domain.Page) ([]Shop, error)
	// CreateShop stores a shop and sets its id, or returns the one that an earlier run of the request stored.
	CreateShop(ctx context.Context, claim *domain.Claim, s *Shop, by domain.Actor) error
	// ChangeShop locks and reads the shop, calls change, and stores the result with the time at. An error of change rolls
	// back and is returned.
	ChangeShop(ctx context.Context, id int64, by domain.Actor, at time.Time, change func(*Shop) error) (Shop, error)
}

package domain

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
)

// Shop is where a voucher is redeemed. Its data follows the hm-dianping course.
type Shop struct {
	ID   int64  `json:"id,string"`
	Name string `json:"name"`
	// The category on the pages of hm-dianping.
	TypeID    int64     `json:"type_id,string"`
	Area      string    `json:"area"`
	Address   string    `json:"address"`
	OpenHours string    `json:"open_hours"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at" gorm:"autoUpdateTime:false"`

	// Only on the pages of hm-dianping.

	Images   string  `json:"-"` // comma-separated URLs
	X        float64 `json:"-"` // longitude
	Y        float64 `json:"-"` // latitude
	AvgPrice int64   `json:"-"` // cents
	Sold     int     `json:"-"`
	Comments int     `json:"-"`
	// Tenths: 47 is 4.7.
	Score int `json:"-"`
}

// ShopFields are the fields that an operator can set in a new shop and change later. A nil field is absent.
type ShopFields struct {
	Name      *string `json:"name"`
	Area      *string `json:"area"`
	Address   *string `json:"address"`
	OpenHours *string `json:"open_hours"`
	TypeID    *ID     `json:"type_id"`
}

// Limits of the fields of a shop: the lengths of the columns, and the highest category.
const (
	maxShopName    = 128
	maxShopArea    = 128
	maxShopAddress = 255
	maxShopHours   = 32
	maxTypeID      = 1000
)

// NewShop returns a shop with the fields, which need a name. Error: *InvalidError.
func NewShop(f ShopFields, now time.Time) (Shop, error) {
	if f.Name == nil {
		return Shop{}, Invalid("name", "is required")
	}

	s := Shop{
		TypeID:    1,
		CreatedAt: now,
		UpdatedAt: now,
	}

	err := f.Apply(&s)
	return s, err
}

// Apply sets the present fields on s. After an error the contents of s are undefined. Error: *InvalidError.
func (f ShopFields) Apply(s *Shop) error {
	var bad InvalidError
	SetText(&s.Name, f.Name, "name", 1, maxShopName, &bad)
	SetText(&s.Area, f.Area, "area", 0, maxShopArea, &bad)
	SetText(&s.Address, f.Address, "address", 0, maxShopAddress, &bad)
	SetText(&s.OpenHours, f.OpenHours, "open_hours", 0, maxShopHours, &bad)

	if f.TypeID != nil {
		s.TypeID = int64(*f.TypeID)
		checkRange(s.TypeID, "type_id", 1, maxTypeID, &bad)
	}

	return bad.Err()
}

// Changes lists the changed fields, for the audit log.
func (s *Shop) Changes(after *Shop) string {
	all := changes{fmt.Sprintf("shop %d", after.ID)}
	all.add("name", quoted(s.Name), quoted(after.Name))
	all.add("area", quoted(s.Area), quoted(after.Area))
	all.add("address", quoted(s.Address), quoted(after.Address))
	all.add("open_hours", quoted(s.OpenHours), quoted(after.OpenHours))
	all.add("type_id", s.TypeID, after.TypeID)
	return strings.Join(all, "; ")
}

// Place is a point on the earth: longitude and latitude in degrees.
type Place struct{ X, Y float64 }

// earthRadius is the mean radius in metres; the earth is treated as a sphere.
const earthRadius = 6371e3

// Distance returns the great-circle distance from a place in metres (haversine formula).
func (s *Shop) Distance(from Place) float64 {
	const degree = math.Pi / 180
	dx := math.Sin((s.X - from.X) * degree / 2)
	dy := math.Sin((s.Y - from.Y) * degree / 2)
	h := dy*dy + math.Cos(s.Y*degree)*math.Cos(from.Y*degree)*dx*dx
	return 2 * earthRadius * math.Asin(math.Sqrt(math.Min(1, h)))
}

// ShopFilter selects shops of one type: nearest first if Near is set, otherwise by id.
type ShopFilter struct {
	TypeID int64
	Near   *Place
	Skip   int
	Limit  int
}

// ShopStore stores shops. Each method is one transaction. Errors: ErrNotFound, ErrUnavailable.
type ShopStore interface {
	Shop(ctx context.Context, id int64) (Shop, error)
	ListShops(ctx context.Context, f ShopFilter) ([]Shop, error)
	// Shops returns a page of all shops, newest first.
	Shops(ctx context.Context, p Page) ([]Shop, error)
	// CreateShop stores a shop and sets its id, or returns the one that an earlier run of the request stored.
	CreateShop(ctx context.Context, claim *Claim, s *Shop, by Actor) error
	// ChangeShop locks and reads the shop, calls change, and stores the result with the time at. An error of change rolls
	// back and is returned.
	ChangeShop(ctx context.Context, id int64, by Actor, at time.Time, change func(*Shop) error) (Shop, error)
}

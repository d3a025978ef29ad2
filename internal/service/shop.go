package service

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

// ShopType is a kind of shop.
type ShopType struct {
	ID   int64
	Name string
	Icon string // path below the front end's image folder
}

// ShopTypes returns the kinds of shops in display order. They are those of the hm-dianping course, whose pages contain
// an image for each.
func ShopTypes() []ShopType {
	return []ShopType{
		{1, "美食", "/types/ms.png"},
		{2, "KTV", "/types/KTV.png"},
		{3, "丽人·美发", "/types/lrmf.png"},
		{10, "美睫·美甲", "/types/mjmj.png"},
		{5, "按摩·足疗", "/types/amzl.png"},
		{6, "美容SPA", "/types/spa.png"},
		{7, "亲子游乐", "/types/qzyl.png"},
		{8, "酒吧", "/types/jiuba.png"},
		{9, "轰趴馆", "/types/hpg.png"},
		{4, "健身运动", "/types/jsyd.png"},
	}
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

// ShopFilter selects shops of one type: nearest first if Near is set, otherwise by id.
type ShopFilter struct {
	TypeID int64
	Near   *Place
	Skip   int
	Limit  int
}

// ShopStore reads shops. Errors: ErrNotFound, ErrUnavailable.
type ShopStore interface {
	Shop(ctx context.Context, id int64) (Shop, error)
	ListShops(ctx context.Context, f ShopFilter) ([]Shop, error)
}

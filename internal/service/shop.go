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
	Images    string // comma list of addresses
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
	Icon string // address below the front end's folder of images
}

// ShopTypes are the kinds of shops in the order in which they are shown. They are those of the hm-dianping course, whose
// pages bring an image for each.
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

// Place is a point on the earth.
type Place struct{ X, Y float64 } // longitude, latitude, in degrees

// earthRadius is that of a ball, in metres.
const earthRadius = 6371e3

// Distance is how far the shop is from a place, in metres along the ground (haversine).
func (s *Shop) Distance(from Place) float64 {
	const degree = math.Pi / 180
	dx, dy := math.Sin((s.X-from.X)*degree/2), math.Sin((s.Y-from.Y)*degree/2)
	h := dy*dy + math.Cos(s.Y*degree)*math.Cos(from.Y*degree)*dx*dx
	return 2 * earthRadius * math.Asin(math.Sqrt(math.Min(1, h)))
}

// ShopFilter selects shops of one type, the nearest first, or by id if nobody says near to what.
type ShopFilter struct {
	TypeID int64
	Near   *Place
	Skip   int
	Limit  int
}

// ShopStore shows shops. Errors: ErrNotFound, ErrUnavailable.
type ShopStore interface {
	Shop(ctx context.Context, id int64) (Shop, error)
	ListShops(ctx context.Context, f ShopFilter) ([]Shop, error)
}

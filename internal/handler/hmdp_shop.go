package handler

import (
	"context"
	"errors"
	"strconv"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

// hmdpPageSize is the number of shops on a page, which the pages expect. hmdpPages is the highest page number accepted.
const hmdpPageSize, hmdpPages = 5, 100_000

type hmdpShopType struct {
	ID   domain.ID `json:"id"`
	Name string    `json:"name"`
	// Path below the front end's image folder.
	Icon string `json:"icon"`
	Sort int    `json:"sort"`
}

// hmdpShopTypes are those of the hm-dianping course, whose pages contain an image for each.
var hmdpShopTypes = []hmdpShopType{
	{1, "美食", "/types/ms.png", 1},
	{2, "KTV", "/types/KTV.png", 2},
	{3, "丽人·美发", "/types/lrmf.png", 3},
	{10, "美睫·美甲", "/types/mjmj.png", 4},
	{5, "按摩·足疗", "/types/amzl.png", 5},
	{6, "美容SPA", "/types/spa.png", 6},
	{7, "亲子游乐", "/types/qzyl.png", 7},
	{8, "酒吧", "/types/jiuba.png", 8},
	{9, "轰趴馆", "/types/hpg.png", 9},
	{4, "健身运动", "/types/jsyd.png", 10},
}

func (h *hmdpHandler) shopTypes(c *gin.Context) error {
	return h.write(c, hmdpShopTypes)
}

// hmdpShop is the JSON form of a shop. The pages split images at commas without a check for null, display avgPrice as
// yuan, and divide score by ten.
type hmdpShop struct {
	ID        domain.ID `json:"id"`
	Name      string    `json:"name"`
	TypeID    domain.ID `json:"typeId"`
	Images    string    `json:"images"`
	Area      string    `json:"area"`
	Address   string    `json:"address"`
	X         float64   `json:"x"`
	Y         float64   `json:"y"`
	AvgPrice  float64   `json:"avgPrice"`
	Sold      int       `json:"sold"`
	Comments  int       `json:"comments"`
	Score     int       `json:"score"`
	OpenHours string    `json:"openHours"`
	Distance  *float64  `json:"distance,omitempty"` // metres
}

func newHmdpShop(s *domain.Shop) hmdpShop {
	return hmdpShop{
		ID:        domain.ID(s.ID),
		Name:      s.Name,
		TypeID:    domain.ID(s.TypeID),
		Images:    s.Images,
		Area:      s.Area,
		Address:   s.Address,
		X:         s.X,
		Y:         s.Y,
		AvgPrice:  float64(s.AvgPrice) / 100,
		Sold:      s.Sold,
		Comments:  s.Comments,
		Score:     s.Score,
		OpenHours: s.OpenHours,
	}
}

func (h *hmdpHandler) shop(c *gin.Context, id int64) error {
	return h.shopPages.write(c, shopQuery{id: id}, func(ctx context.Context) (*snapshot, error) {
		s, err := h.Store.Shop(ctx, id)
		if errors.Is(err, domain.ErrNotFound) {
			return nil, hmdpError("店铺不存在！")
		}
		if err != nil {
			return nil, err
		}

		return encodeHmdp(newHmdpShop(&s))
	})
}

// shopQuery is the cache key of an answer: one shop, or a page of the shops of a type.
type shopQuery struct {
	id, typeID int64
	skip       int
}

func encodeHmdp(data any) (*snapshot, error) {
	return encodeSnapshot(hmdpOut{Success: true, Data: data})
}

func (h *hmdpHandler) shopsOfType(c *gin.Context) error {
	f := domain.ShopFilter{Limit: hmdpPageSize}
	var ok bool
	if f.TypeID, ok = domain.ParseID(c.Query("typeId")); !ok {
		return domain.Invalid("typeId", "must be the id of a type")
	}

	current, ok := domain.ParseID(c.DefaultQuery("current", "1"))
	if !ok || current > hmdpPages {
		return domain.Invalid("current", "must be the number of a page")
	}

	f.Skip = int(current-1) * hmdpPageSize
	var err error
	if f.Near, err = position(c); err != nil {
		return err
	}

	if f.Near == nil {
		return h.shopPages.write(c, shopQuery{typeID: f.TypeID, skip: f.Skip}, func(ctx context.Context) (*snapshot, error) {
			shops, err := h.listShops(ctx, f)
			if err != nil {
				return nil, err
			}
			return encodeHmdp(shops)
		})
	}

	if err := h.limits.visit(c); err != nil {
		return err
	}

	out, err := h.listShops(c.Request.Context(), f)
	if err != nil {
		return err
	}

	return h.write(c, out)
}

func (h *hmdpHandler) listShops(ctx context.Context, f domain.ShopFilter) ([]hmdpShop, error) {
	shops, err := h.Store.ListShops(ctx, f)
	if err != nil {
		return nil, err
	}

	out := make([]hmdpShop, len(shops))
	for i := range shops {
		out[i] = newHmdpShop(&shops[i])
		if f.Near != nil {
			d := shops[i].Distance(*f.Near)
			out[i].Distance = &d
		}
	}

	return out, nil
}

func position(c *gin.Context) (*domain.Place, error) {
	if c.Query("x") == "" || c.Query("y") == "" {
		return nil, nil
	}

	x, ok := degrees(c.Query("x"), 180)
	if !ok {
		return nil, domain.Invalid("x", "must be a longitude in degrees")
	}

	y, ok := degrees(c.Query("y"), 90)
	if !ok {
		return nil, domain.Invalid("y", "must be a latitude in degrees")
	}

	return &domain.Place{X: x, Y: y}, nil
}

func degrees(s string, most float64) (float64, bool) {
	d, err := strconv.ParseFloat(s, 64)
	// False for NaN.
	return d, err == nil && d >= -most && d <= most
}

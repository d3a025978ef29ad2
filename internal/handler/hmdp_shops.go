package handler

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

// hmdpPageSize is the number of shops on a page, which the pages expect. hmdpMaxPage is the highest page number accepted.
const hmdpPageSize, hmdpMaxPage = 5, 100_000

type shopType struct {
	ID   domain.ID `json:"id"`
	Name string    `json:"name"`
	// Path below the front end's image folder.
	Icon string `json:"icon"`
	Sort int    `json:"sort"`
}

// shopTypes are those of the hm-dianping course, whose pages contain an image for each.
var shopTypes = []shopType{
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

func listShopTypes(c *gin.Context) error { return writeSuccess(c, shopTypes) }

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
	return h.shops.write(c, hmdpShopKey{id: id}, func(ctx context.Context) (any, error) {
		s, err := h.Store.Shop(ctx, id)
		if errors.Is(err, domain.ErrNotFound) {
			return nil, refusal("店铺不存在！")
		}
		if err != nil {
			return nil, err
		}

		return success(newHmdpShop(&s)), nil
	})
}

// hmdpShopKey is the key of one shop, or of a page of the shops of a type.
type hmdpShopKey struct {
	id, typeID int64
	skip       int
}

func (h *hmdpHandler) shopsOfType(c *gin.Context) error {
	f := domain.ShopFilter{Limit: hmdpPageSize}
	var ok bool
	if f.TypeID, ok = domain.ParseID(c.Query("typeId")); !ok {
		return domain.Invalid("typeId", "must be the id of a type")
	}

	current, ok := domain.ParseID(c.DefaultQuery("current", "1"))
	if !ok || current > hmdpMaxPage {
		return domain.Invalid("current", "must be the number of a page")
	}

	f.Skip = int(current-1) * hmdpPageSize
	var err error
	if f.Near, err = position(c); err != nil {
		return err
	}

	if f.Near == nil {
		return h.shops.write(c, hmdpShopKey{typeID: f.TypeID, skip: f.Skip}, func(ctx context.Context) (any, error) {
			return h.listShops(ctx, f)
		})
	}

	if err := h.limits.visit(c); err != nil {
		return err
	}

	out, err := h.listShops(c.Request.Context(), f)
	if err != nil {
		return err
	}

	c.JSON(http.StatusOK, out)
	return nil
}

func (h *hmdpHandler) listShops(ctx context.Context, f domain.ShopFilter) (envelope, error) {
	shops, err := h.Store.ListShops(ctx, f)
	if err != nil {
		return envelope{}, err
	}

	out := make([]hmdpShop, len(shops))
	for i := range shops {
		out[i] = newHmdpShop(&shops[i])
		if f.Near != nil {
			d := shops[i].Distance(*f.Near)
			out[i].Distance = &d
		}
	}

	return success(out), nil
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

package hmdp

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

// pageSize is the number of shops on a page, which the pages expect. maxPage is the highest page number accepted.
const pageSize, maxPage = 5, 100_000

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

func listShopTypes(c *gin.Context) error { return write(c, shopTypes) }

// shopOut is the JSON form of a shop. The pages split images at commas without a check for null, display avgPrice as
// yuan, and divide score by ten.
type shopOut struct {
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

func newShopOut(s *domain.Shop) shopOut {
	return shopOut{
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

func (a *API) shop(c *gin.Context, id int64) error {
	return a.WriteCached(c, shopQuery{ID: id}, func(ctx context.Context) (any, error) {
		s, err := a.Shops.Shop(ctx, id)
		if errors.Is(err, domain.ErrNotFound) {
			return nil, refusal("店铺不存在！")
		}
		if err != nil {
			return nil, err
		}

		return success(newShopOut(&s)), nil
	})
}

// shopQuery asks for one shop, or for a page of the shops of a type.
type shopQuery struct {
	ID, TypeID int64
	Skip       int
}

func (a *API) shopsOfType(c *gin.Context) error {
	f := domain.ShopFilter{Limit: pageSize}
	var ok bool
	if f.TypeID, ok = domain.ParseID(c.Query("typeId")); !ok {
		return domain.Invalid("typeId", "must be the id of a type")
	}

	current, ok := domain.ParseID(cmp.Or(c.Query("current"), "1"))
	if !ok || current > maxPage {
		return domain.Invalid("current", "must be the number of a page")
	}

	f.Skip = int(current-1) * pageSize
	var err error
	if f.Near, err = position(c); err != nil {
		return err
	}

	if f.Near == nil {
		return a.WriteCached(c, shopQuery{TypeID: f.TypeID, Skip: f.Skip}, func(ctx context.Context) (any, error) {
			return a.listShops(ctx, f)
		})
	}

	if err := a.Visit(c); err != nil {
		return err
	}

	out, err := a.listShops(c.Request.Context(), f)
	if err != nil {
		return err
	}

	c.JSON(http.StatusOK, out)
	return nil
}

func (a *API) listShops(ctx context.Context, f domain.ShopFilter) (envelope, error) {
	shops, err := a.Shops.ListShops(ctx, f)
	if err != nil {
		return envelope{}, err
	}

	out := make([]shopOut, len(shops))
	for i := range shops {
		out[i] = newShopOut(&shops[i])
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

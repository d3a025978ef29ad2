package handler

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

type shopKey struct {
	id   int64
	page domain.Page
}

func (a *api) showShop(c *gin.Context, id int64) error {
	return a.writeCached(c, shopKey{id: id}, func(ctx context.Context) (any, error) {
		return a.Store.Shop(ctx, id)
	})
}

func (a *api) listShops(c *gin.Context) error {
	q := &query{c: c}
	page := q.page(a.CursorKeys)
	if q.err != nil {
		return q.err
	}

	return a.writeCached(c, shopKey{page: page.Page}, func(ctx context.Context) (any, error) {
		shops, err := a.Store.Shops(ctx, page.Page)
		if err != nil {
			return nil, err
		}
		return newList(page, shops, itself, func(s *domain.Shop) int64 { return s.ID }), nil
	})
}

func encodeSnapshot(v any) (*snapshot, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return newSnapshot(part{json: body}), nil
}

func (a *api) createShop(c *gin.Context, claim *domain.Claim) error {
	var in domain.ShopFields
	if err := bind(c, &in); err != nil {
		return err
	}

	s, err := domain.NewShop(in, domain.Moment(a.Now()))
	if err != nil {
		return err
	}

	if err := a.Store.CreateShop(c.Request.Context(), claim, &s, adminOf(c)); err != nil {
		return err
	}

	a.answers.Clear()
	c.Header("Location", locationOf("shops", s.ID))
	return writeJSON(c, http.StatusCreated, s)
}

func (a *api) changeShop(c *gin.Context, id int64) error {
	var in domain.ShopFields
	if err := bind(c, &in); err != nil {
		return err
	}

	s, err := a.Store.ChangeShop(c.Request.Context(), id, adminOf(c), domain.Moment(a.Now()), in.Apply)
	if err != nil {
		return err
	}

	a.answers.Clear()
	return writeJSON(c, http.StatusOK, s)
}

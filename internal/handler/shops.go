package handler

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

type shopHandler struct {
	store   domain.ShopStore
	now     func() time.Time
	cursors cursors
	answers *answerCache[shopKey]
}

type shopKey struct {
	id   int64
	page domain.Page
}

func newShopHandler(cfg Config, cursors cursors, visit func(*gin.Context) error) *shopHandler {
	return &shopHandler{cfg.Shops, cfg.Now, cursors, newAnswerCache[shopKey](answerTimeout, visit, cfg.Now)}
}

type shopOut struct {
	ID        ID        `json:"id"`
	Name      string    `json:"name"`
	TypeID    ID        `json:"type_id"`
	Area      string    `json:"area"`
	Address   string    `json:"address"`
	OpenHours string    `json:"open_hours"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

func newShopOut(s *domain.Shop) shopOut {
	return shopOut{
		ID:        ID(s.ID),
		Name:      s.Name,
		TypeID:    ID(s.TypeID),
		Area:      s.Area,
		Address:   s.Address,
		OpenHours: s.OpenHours,
		CreatedAt: s.CreatedAt,
		UpdatedAt: s.UpdatedAt,
	}
}

func (h *shopHandler) show(c *gin.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}

	return h.answers.write(c, shopKey{id: id}, func(ctx context.Context) (*snapshot, error) {
		s, err := h.store.Shop(ctx, id)
		if err != nil {
			return nil, err
		}
		return encodeSnapshot(newShopOut(&s))
	})
}

func (h *shopHandler) list(c *gin.Context) error {
	page, err := h.cursors.request(c)
	if err != nil {
		return err
	}

	return h.answers.write(c, shopKey{page: page.Page}, func(ctx context.Context) (*snapshot, error) {
		shops, err := h.store.Shops(ctx, page.Page)
		if err != nil {
			return nil, err
		}
		return encodeSnapshot(newList(page, shops, newShopOut, func(s *domain.Shop) int64 { return s.ID }))
	})
}

func encodeSnapshot(v any) (*snapshot, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return newSnapshot(part{piece: newPiece(body)}), nil
}

type shopFields struct {
	Name      *string `json:"name"`
	TypeID    *ID     `json:"type_id"`
	Area      *string `json:"area"`
	Address   *string `json:"address"`
	OpenHours *string `json:"open_hours"`
}

func (f shopFields) fields() domain.ShopFields {
	return domain.ShopFields{
		Name:      f.Name,
		TypeID:    (*int64)(f.TypeID),
		Area:      f.Area,
		Address:   f.Address,
		OpenHours: f.OpenHours,
	}
}

func (h *shopHandler) create(c *gin.Context, claim *domain.Claim) error {
	var in shopFields
	if err := bind(c, &in); err != nil {
		return err
	}

	s, err := domain.NewShop(in.fields(), domain.Moment(h.now()))
	if err != nil {
		return err
	}

	if err := h.store.CreateShop(c.Request.Context(), claim, &s, adminOf(c)); err != nil {
		return err
	}

	h.answers.forget()
	c.Header("Location", locationOf("shops", s.ID))
	return writeJSON(c, http.StatusCreated, newShopOut(&s))
}

func (h *shopHandler) change(c *gin.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}

	var in shopFields
	if err := bind(c, &in); err != nil {
		return err
	}

	s, err := h.store.ChangeShop(c.Request.Context(), id, adminOf(c), domain.Moment(h.now()), in.fields().Apply)
	if err != nil {
		return err
	}

	h.answers.forget()
	return writeJSON(c, http.StatusOK, newShopOut(&s))
}

func adminOf(c *gin.Context) domain.Actor {
	return domain.Actor{Kind: domain.ActorAdmin, ID: caller(c).UserID}
}

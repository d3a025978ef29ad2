package repo

import (
	"context"
	"errors"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"seckill/internal/domain"
	"seckill/internal/kit/picture"
)

type imageRow struct{ picture.Picture }

func (imageRow) TableName() string { return "images" }

// AddPicture implements picture.Store.
func (s *Store) AddPicture(ctx context.Context, p *picture.Picture) error {
	return s.db.Write(ctx, func(tx *gorm.DB) error { return insertPicture(tx, p) })
}

func insertPicture(tx *gorm.DB, p *picture.Picture) error {
	return tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&imageRow{*p}).Error
}

// Picture implements picture.Store.
func (s *Store) Picture(ctx context.Context, id string) (picture.Picture, error) {
	row, err := takeImage(s.db.Reader(ctx), id)
	return row.Picture, s.db.Translate(err)
}

// takeImage reads a picture. MySQL compares the column, which is ASCII, with no other text, so what is no id is not
// searched.
func takeImage(tx *gorm.DB, id string) (imageRow, error) {
	var row imageRow
	if !picture.IsID(id) {
		return row, gorm.ErrRecordNotFound
	}

	err := tx.Where("id = ?", id).Take(&row).Error
	return row, err
}

func requireImage(tx *gorm.DB, id string) error {
	if id == "" {
		return nil
	}

	// Pictures are never deleted, so it stays.
	_, err := takeImage(tx.Session(&gorm.Session{}).Select("id"), id)
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return domain.Invalid("image_id", "is not the id of an uploaded picture")
	}
	return err
}

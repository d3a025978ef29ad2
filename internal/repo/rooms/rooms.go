// Package rooms stores the waiting rooms of sales.
package rooms

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

// Store stores waiting rooms. It is safe for concurrent use.
type Store struct{ db sqldb.Access }

// New returns a Store in db.
func New(db sqldb.Access) *Store { return &Store{db} }

// The rows of the tables. They do not leave this package.

type roomRow struct {
	VoucherID int64 `gorm:"primaryKey;autoIncrement:false"`
	Joined    uint32
	Size      uint32
	Seed      []byte
	StartedAt *time.Time
}

func (roomRow) TableName() string { return "rooms" }

type placeRow struct {
	VoucherID int64 `gorm:"primaryKey;autoIncrement:false"`
	UserID    int64 `gorm:"primaryKey;autoIncrement:false"`
	Number    uint32
	JoinedAt  time.Time
}

func (placeRow) TableName() string { return "room_places" }

type eventRow struct {
	VoucherID int64  `gorm:"primaryKey;autoIncrement:false"`
	Seq       uint32 `gorm:"primaryKey;autoIncrement:false"`
	Kind      int8
	At        time.Time
	ExpiresAt *time.Time
	Present   int
	Data      []byte
}

func (eventRow) TableName() string { return "room_log" }

// JoinRoom implements entry.RoomStore. The row of the room is locked, so numbers have no gaps and the size of the lobby
// is exact.
func (s *Store) JoinRoom(ctx context.Context, voucherID int64, requests []domain.PlaceRequest) ([]uint32, error) {
	var numbers []uint32
	err := s.db.Write(ctx, func(tx *gorm.DB) error {
		room, err := lockRoom(tx, voucherID)
		if err != nil {
			return err
		}
		now, err := s.db.Now(tx)
		if err != nil {
			return err
		}
		users := make([]int64, len(requests))
		for i := range requests {
			users[i] = requests[i].UserID
		}
		var found []placeRow
		if err := tx.Where("voucher_id = ? AND user_id IN ?", voucherID, users).Find(&found).Error; err != nil {
			return err
		}
		places := make(map[int64]uint32, len(found))
		for _, p := range found {
			places[p.UserID] = p.Number
		}
		numbers = make([]uint32, len(requests))
		joined := room.Joined
		var added []placeRow
		for i, r := range requests {
			number, has := places[r.UserID]
			if !has || int64(number) == r.Lost {
				number = joined
				joined++
				places[r.UserID] = number
				added = append(added, placeRow{VoucherID: voucherID, UserID: r.UserID, Number: number, JoinedAt: now})
			}
			numbers[i] = number
		}
		if len(added) == 0 {
			return nil
		}
		err = tx.Clauses(clause.OnConflict{DoUpdates: clause.AssignmentColumns([]string{"number", "joined_at"})}).Create(&added).Error
		if err != nil {
			return err
		}
		return tx.Model(&room).Update("joined", joined).Error
	})
	return numbers, err
}

// lockRoom locks the row of a room, and creates it if necessary.
func lockRoom(tx *gorm.DB, voucherID int64) (roomRow, error) {
	var room roomRow
	err := tx.Clauses(sqldb.ForUpdate).Take(&room, voucherID).Error
	if !errors.Is(err, gorm.ErrRecordNotFound) {
		return room, err
	}
	if err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&roomRow{VoucherID: voucherID}).Error; err != nil {
		return room, err
	}
	return room, tx.Clauses(sqldb.ForUpdate).Take(&room, voucherID).Error
}

// StartRoom implements entry.RoomStore. The statement waits for the transactions of JoinRoom that hold the row.
func (s *Store) StartRoom(ctx context.Context, voucherID int64, seed [32]byte) error {
	return s.db.RetryUnavailable(ctx, func() error {
		tx := s.db.Writer(ctx)
		now, err := s.db.Now(tx)
		if err != nil {
			return err
		}
		return tx.Model(&roomRow{}).Where("voucher_id = ? AND seed IS NULL", voucherID).
			Updates(map[string]any{"seed": seed[:], "size": gorm.Expr("joined"), "started_at": now}).Error
	})
}

// LeaveRoom implements entry.RoomStore.
func (s *Store) LeaveRoom(ctx context.Context, voucherID int64, places []domain.RoomPlace) error {
	return s.db.Write(ctx, func(tx *gorm.DB) error {
		if _, err := lockRoom(tx, voucherID); err != nil {
			return err
		}
		type place struct {
			user   int64
			number uint32
		}
		users, admitted := make([]int64, len(places)), make(map[place]bool, len(places))
		for i, p := range places {
			users[i], admitted[place{p.UserID, p.Number}] = p.UserID, p.Admitted
		}
		bought, err := buyers(tx, voucherID, users)
		if err != nil {
			return err
		}
		var found []placeRow
		if err := tx.Where("voucher_id = ? AND user_id IN ?", voucherID, users).Find(&found).Error; err != nil {
			return err
		}
		var gone []int64
		var numbers []uint32
		for _, p := range found {
			admitted, leaves := admitted[place{p.UserID, p.Number}]
			if !leaves { // the user has a newer place
				continue
			}
			gone = append(gone, p.UserID)
			if !admitted || !bought[p.UserID] {
				numbers = append(numbers, p.Number)
			}
		}
		if len(gone) == 0 {
			return nil
		}
		if err := tx.Where("voucher_id = ? AND user_id IN ?", voucherID, gone).Delete(&placeRow{}).Error; err != nil {
			return err
		}
		if len(numbers) == 0 {
			return nil
		}
		now, err := s.db.Now(tx)
		if err != nil {
			return err
		}
		return appendEvent(tx, domain.RoomEvent{VoucherID: voucherID, Kind: domain.RoomLeft, At: now, Numbers: numbers})
	})
}

// buyers returns those of the users who have an order of the voucher, whatever its status.
func buyers(tx *gorm.DB, voucherID int64, users []int64) (map[int64]bool, error) {
	var found []int64
	err := tx.Raw("SELECT DISTINCT user_id FROM voucher_orders WHERE user_id IN ? AND voucher_id = ?", users, voucherID).Scan(&found).Error
	all := make(map[int64]bool, len(found))
	for _, user := range found {
		all[user] = true
	}
	return all, err
}

// appendEvent stores an event with the next sequence number, in a transaction that has locked the room.
func appendEvent(tx *gorm.DB, e domain.RoomEvent) error {
	err := tx.Raw("SELECT COALESCE(MAX(seq), 0) + 1 FROM room_log WHERE voucher_id = ?", e.VoucherID).Scan(&e.Seq).Error
	if err != nil {
		return err
	}
	row := newEventRow(&e)
	return tx.Create(&row).Error
}

// Admit implements entry.RoomStore.
func (s *Store) Admit(ctx context.Context, e domain.RoomEvent) error {
	return s.db.Write(ctx, func(tx *gorm.DB) error {
		if _, err := lockRoom(tx, e.VoucherID); err != nil {
			return err
		}
		var last uint32
		if err := tx.Raw("SELECT COALESCE(MAX(seq), 0) FROM room_log WHERE voucher_id = ?", e.VoucherID).Scan(&last).Error; err != nil {
			return err
		}
		if last != e.Seq-1 {
			return domain.ErrInvalidState
		}
		row := newEventRow(&e)
		return tx.Create(&row).Error
	})
}

// maxEvents bounds the events of one read.
const maxEvents = 500

// Rooms implements entry.RoomStore.
func (s *Store) Rooms(ctx context.Context, after map[int64]uint32) (rooms []domain.Room, now time.Time, err error) {
	db := s.db.Reader(ctx)
	if now, err = s.db.Now(db); err != nil {
		return nil, now, s.db.Translate(err)
	}
	ids := make([]int64, 0, len(after))
	for id := range after {
		ids = append(ids, id)
	}
	var rows []struct {
		Room  roomRow `gorm:"embedded"`
		Stock int64
	}
	err = db.Model(&roomRow{}).Select("rooms.*, s.stock").Joins("JOIN seckill_vouchers s ON s.voucher_id = rooms.voucher_id").
		Where("rooms.voucher_id IN ?", ids).Scan(&rows).Error
	if err != nil {
		return nil, now, s.db.Translate(err)
	}
	for i := range rows {
		row, stock := &rows[i].Room, rows[i].Stock
		room := domain.Room{VoucherID: row.VoucherID, Joined: row.Joined, Size: row.Size, Stock: stock}
		if row.StartedAt != nil {
			room.StartedAt = *row.StartedAt
			copy(room.Seed[:], row.Seed)
		}
		var events []eventRow
		err := db.Where("voucher_id = ? AND seq > ?", row.VoucherID, after[row.VoucherID]).Order("seq").Limit(maxEvents).Find(&events).Error
		if err != nil {
			return nil, now, s.db.Translate(err)
		}
		for i := range events {
			e, err := events[i].event()
			if err != nil {
				return nil, now, err
			}
			room.Events = append(room.Events, e)
		}
		rooms = append(rooms, room)
	}
	return rooms, now, nil
}

// PurgePlaces implements entry.RoomStore.
func (s *Store) PurgePlaces(ctx context.Context) (int, error) {
	db := s.db.Reader(ctx)
	now, err := s.db.Now(db)
	if err != nil {
		return 0, s.db.Translate(err)
	}
	var rows []placeRow
	err = db.Select("p.voucher_id, p.user_id").Table("rooms r").
		Joins("JOIN seckill_vouchers s ON s.voucher_id = r.voucher_id AND s.end_at < ?", now.Add(-placeLife)).
		Joins("JOIN room_places p ON p.voucher_id = r.voucher_id").Limit(sqldb.PurgeBatch).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return 0, s.db.Translate(err)
	}
	err = s.db.Write(ctx, func(tx *gorm.DB) error { return tx.Delete(&rows).Error })
	return len(rows), err
}

// PlacesOf implements domain.PersonalStore. There are few rooms, and the place of a user is found by its primary key.
func (s *Store) PlacesOf(ctx context.Context, userID, after int64, limit int) ([]domain.PlaceRecord, error) {
	var places []domain.PlaceRecord
	err := s.db.Reader(ctx).Select("p.voucher_id, p.number, p.joined_at").Table("rooms r").
		Joins("JOIN room_places p ON p.voucher_id = r.voucher_id AND p.user_id = ?", userID).
		Where("r.voucher_id > ?", after).Order("r.voucher_id").Limit(limit).Scan(&places).Error
	return places, s.db.Translate(err)
}

// placeLife is how long the places of a sale are kept after its end. Seed, size and the log of the room stay, so that the
// draw can be checked.
const placeLife = 7 * 24 * time.Hour

func newEventRow(e *domain.RoomEvent) eventRow {
	row := eventRow{VoucherID: e.VoucherID, Seq: e.Seq, Kind: int8(e.Kind), At: e.At, Present: e.Present, Data: []byte{}}
	if !e.ExpiresAt.IsZero() {
		row.ExpiresAt = &e.ExpiresAt
	}
	for _, n := range e.Numbers {
		row.Data = binary.AppendUvarint(row.Data, uint64(n))
	}
	return row
}

func (r *eventRow) event() (domain.RoomEvent, error) {
	e := domain.RoomEvent{VoucherID: r.VoucherID, Seq: r.Seq, Kind: domain.RoomEventKind(r.Kind), At: r.At, Present: r.Present}
	if r.ExpiresAt != nil {
		e.ExpiresAt = *r.ExpiresAt
	}
	for data := r.Data; len(data) > 0; {
		n, size := binary.Uvarint(data)
		if size <= 0 || n > 1<<32-1 {
			return e, fmt.Errorf("room_log: event %d of voucher %d cannot be read", r.Seq, r.VoucherID)
		}
		e.Numbers, data = append(e.Numbers, uint32(n)), data[size:]
	}
	return e, nil
}

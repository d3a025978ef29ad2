package repo

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

// The rows of the tables. They do not leave this package.

type placeRow struct {
	VoucherID int64 `gorm:"primaryKey;autoIncrement:false"`
	UserID    int64 `gorm:"primaryKey;autoIncrement:false"`
	Number    uint32
	JoinedAt  time.Time
	// All others, because the user had a pass before and did not buy.
	Behind bool
}

// noPlace is the number of a user who has left a place, but keeps what it says about the next one.
const noPlace = math.MaxUint32

// lost reports whether the user needs another place. number is that of a place that is over, or -1.
func (r *placeRow) lost(number int64) bool { return r.Number == noPlace || int64(r.Number) == number }

func (placeRow) TableName() string { return "room_places" }

func (r *placeRow) user() int64 { return r.UserID }

type roomEventRow struct {
	domain.RoomEvent
	// Counted by the transactions of the orders.
	Bought int `gorm:"->"`
	// The Numbers.
	Data []byte
}

func (roomEventRow) TableName() string { return "room_log" }

// JoinRoom implements entry.RoomStore. The row of the room is locked, so numbers have no gaps and the size of the lobby
// is exact.
func (s *Store) JoinRoom(ctx context.Context, voucherID int64, requests []domain.PlaceRequest) ([]uint32, error) {
	numbers := make([]uint32, len(requests))
	err := s.changeRoom(ctx, voucherID, func(tx *gorm.DB, room *domain.Room, now time.Time) error {
		var found []placeRow
		users := column(requests, func(r *domain.PlaceRequest) int64 { return r.UserID })
		if err := placesOf(tx, voucherID, users).Find(&found).Error; err != nil {
			return err
		}

		bought, err := boughtSince(tx, voucherID, found)
		if err != nil {
			return err
		}

		places := byKey(found, (*placeRow).user)
		joined := room.Joined
		var added []placeRow
		var behind []uint32

		for i, r := range requests {
			p, has := places[r.UserID]
			lost := has && p.lost(r.Lost)
			if !has || lost {
				p = placeRow{
					VoucherID: voucherID,
					UserID:    r.UserID,
					Number:    joined,
					JoinedAt:  now,
					Behind:    lost && !bought[r.UserID],
				}

				joined++
				places[r.UserID] = p
				added = append(added, p)

				if p.Behind {
					behind = append(behind, p.Number)
				}
			}

			numbers[i] = p.Number
		}

		if len(added) == 0 {
			return nil
		}

		err = tx.Clauses(clause.OnConflict{DoUpdates: clause.AssignmentColumns([]string{"number", "joined_at", "behind"})}).Create(&added).Error
		if err != nil {
			return err
		}

		if len(behind) > 0 {
			e := domain.RoomEvent{
				VoucherID: voucherID,
				Kind:      domain.RoomBehind,
				At:        now,
				Numbers:   behind,
			}
			if err := appendEvent(tx, e); err != nil {
				return err
			}
		}

		return tx.Model(room).Update("joined", joined).Error
	})

	return numbers, err
}

func placesOf(tx *gorm.DB, voucherID int64, users []int64) *gorm.DB {
	return tx.Model(&placeRow{}).Where("voucher_id = ? AND user_id IN ?", voucherID, users)
}

// changeRoom runs fn in a transaction that has locked the row of a room, with the time of the database since then.
func (s *Store) changeRoom(ctx context.Context, voucherID int64, fn func(tx *gorm.DB, room *domain.Room, now time.Time) error) error {
	return s.db.Write(ctx, func(tx *gorm.DB) error {
		room, err := lockRoom(tx, voucherID)
		if err != nil {
			return err
		}

		now, err := s.db.Now(tx)
		if err != nil {
			return err
		}

		return fn(tx, &room, now)
	})
}

func lockRoom(tx *gorm.DB, voucherID int64) (domain.Room, error) {
	var room domain.Room
	err := tx.Clauses(sqldb.ForUpdate).Take(&room, voucherID).Error
	if !errors.Is(err, gorm.ErrRecordNotFound) {
		return room, err
	}
	if err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&domain.Room{VoucherID: voucherID}).Error; err != nil {
		return room, err
	}
	return room, tx.Clauses(sqldb.ForUpdate).Take(&room, voucherID).Error
}

// StartRoom implements entry.RoomStore. It reads the begin of the sale itself, under the lock of the room: an admin may
// just have postponed it.
func (s *Store) StartRoom(ctx context.Context, voucherID int64, seed [32]byte) error {
	return s.changeRoom(ctx, voucherID, func(tx *gorm.DB, room *domain.Room, now time.Time) error {
		if !room.StartedAt.IsZero() {
			return nil
		}

		var begun int64
		err := tx.Table("seckill_vouchers").Where("voucher_id = ? AND begin_at <= ?", voucherID, now).Count(&begun).Error
		if err != nil || begun == 0 {
			return err
		}

		return tx.Model(room).Updates(map[string]any{
			"seed":         seed[:],
			"size":         room.Joined,
			"started_at":   now,
			"heartbeat_at": now,
		}).Error
	})
}

// LeaveRoom implements entry.RoomStore.
func (s *Store) LeaveRoom(ctx context.Context, voucherID int64, places []domain.RoomPlace) error {
	return s.changeRoom(ctx, voucherID, func(tx *gorm.DB, _ *domain.Room, now time.Time) error {
		type key struct {
			user   int64
			number uint32
		}

		left := byKey(places, func(p *domain.RoomPlace) key { return key{p.UserID, p.Number} })
		users := column(places, func(p *domain.RoomPlace) int64 { return p.UserID })

		var found []placeRow
		if err := placesOf(tx, voucherID, users).Find(&found).Error; err != nil {
			return err
		}

		// A user with another number has a newer place, or has left before.
		found = slices.DeleteFunc(found, func(p placeRow) bool {
			_, leaves := left[key{p.UserID, p.Number}]
			return !leaves
		})

		bought, err := boughtSince(tx, voucherID, found)
		if err != nil {
			return err
		}

		var gone []int64
		var unused []int64
		var numbers []uint32
		for _, p := range found {
			place := left[key{p.UserID, p.Number}]
			used := bought[p.UserID] || place.Bought
			// The event takes a waiting place out of the line, and frees the unit of a pass.
			if !place.Over || place.Pass && !used {
				numbers = append(numbers, p.Number)
			}

			if !used && (place.Over || p.Behind) {
				unused = append(unused, p.UserID)
			} else {
				gone = append(gone, p.UserID)
			}
		}

		if err := placesOf(tx, voucherID, gone).Delete(&placeRow{}).Error; err != nil {
			return err
		}
		if err := placesOf(tx, voucherID, unused).Update("number", uint32(noPlace)).Error; err != nil {
			return err
		}
		if len(numbers) == 0 {
			return nil
		}

		return appendEvent(tx, domain.RoomEvent{
			VoucherID: voucherID,
			Kind:      domain.RoomLeft,
			At:        now,
			Numbers:   numbers,
		})
	})
}

// boughtSince returns which users of the places have placed an order of the sale since they joined, whatever became of
// it.
func boughtSince(tx *gorm.DB, voucherID int64, places []placeRow) (map[int64]bool, error) {
	bought := make(map[int64]bool, len(places))
	if len(places) == 0 {
		return bought, nil
	}

	var orders []orderRow
	err := tx.Select("user_id", "created_at").
		Where("user_id IN ? AND voucher_id = ?", column(places, (*placeRow).user), voucherID).Find(&orders).Error

	joined := byKey(places, (*placeRow).user)
	for _, o := range orders {
		bought[o.UserID] = bought[o.UserID] || !o.CreatedAt.Before(joined[o.UserID].JoinedAt)
	}

	return bought, err
}

// appendEvent gives an event the next number. An event with another number is refused with domain.ErrInvalidState.
func appendEvent(tx *gorm.DB, e domain.RoomEvent) error {
	var last uint32
	err := tx.Raw("SELECT COALESCE(MAX(seq), 0) FROM room_log WHERE voucher_id = ?", e.VoucherID).Scan(&last).Error
	if err != nil {
		return err
	}
	if e.Seq != 0 && e.Seq != last+1 {
		return domain.ErrInvalidState
	}

	e.Seq = last + 1
	row := newRoomEventRow(&e)
	return tx.Create(&row).Error
}

// Admit implements entry.RoomStore.
func (s *Store) Admit(ctx context.Context, e domain.RoomEvent) error {
	return s.changeRoom(ctx, e.VoucherID, func(tx *gorm.DB, _ *domain.Room, _ time.Time) error { return appendEvent(tx, e) })
}

// Heartbeat implements entry.RoomStore. The row of the room is locked, so that of several servers one ends an outage.
func (s *Store) Heartbeat(ctx context.Context, voucherID int64) error {
	return s.changeRoom(ctx, voucherID, func(tx *gorm.DB, room *domain.Room, now time.Time) error {
		if !room.Heartbeat.IsZero() && now.Sub(room.Heartbeat) > domain.RoomOutage {
			e := domain.RoomEvent{
				VoucherID: voucherID,
				Kind:      domain.RoomResumed,
				Since:     room.Heartbeat,
				At:        now,
			}
			if err := appendEvent(tx, e); err != nil {
				return err
			}
		}

		return tx.Model(room).Update("heartbeat_at", now).Error
	})
}

// maxEvents bounds the events of one read.
const maxEvents = 500

// Rooms implements entry.RoomStore. The purchases are read before the stock: an order that is placed in between makes
// the room look fuller, so that no pass is given too much.
func (s *Store) Rooms(ctx context.Context, after map[int64]domain.RoomCursor) ([]domain.Room, time.Time, error) {
	db := s.db.Reader(ctx)
	now, err := s.db.Now(db)
	if err != nil {
		return nil, now, s.db.Translate(err)
	}

	bought, err := readBought(db, after)
	if err != nil {
		return nil, now, s.db.Translate(err)
	}

	ids := slices.Collect(maps.Keys(after))

	var rooms []domain.Room
	err = db.Select("rooms.*, s.stock").Joins("JOIN seckill_vouchers s ON s.voucher_id = rooms.voucher_id").
		Where("rooms.voucher_id IN ?", ids).Find(&rooms).Error
	if err != nil {
		return nil, now, s.db.Translate(err)
	}

	for i := range rooms {
		room := &rooms[i]
		room.Bought = bought[room.VoucherID]
		if room.Events, err = readEvents(db, room.VoucherID, after[room.VoucherID].Applied); err != nil {
			return nil, now, s.db.Translate(err)
		}
	}

	return rooms, now, nil
}

func readBought(db *gorm.DB, after map[int64]domain.RoomCursor) (map[int64]map[uint32]int, error) {
	all := make(map[int64]map[uint32]int, len(after))
	for id, cursor := range after {
		var rounds []roomEventRow
		err := db.Select("seq", "bought").Where("voucher_id = ? AND seq >= ? AND bought > 0", id, cursor.Round).Find(&rounds).Error
		if err != nil {
			return nil, err
		}

		all[id] = mapped(rounds, func(r *roomEventRow) (uint32, int) { return r.Seq, r.Bought })
	}

	return all, nil
}

func readEvents(db *gorm.DB, voucherID int64, after uint32) ([]domain.RoomEvent, error) {
	var rows []roomEventRow
	err := db.Where("voucher_id = ? AND seq > ?", voucherID, after).Order("seq").Limit(maxEvents).Find(&rows).Error
	if err != nil {
		return nil, err
	}

	var events []domain.RoomEvent
	for i := range rows {
		e, err := rows[i].event()
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}

	return events, nil
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
		Joins("JOIN seckill_vouchers s ON s.voucher_id = r.voucher_id AND s.end_at < ?", now.Add(-domain.PlaceLife)).
		Joins("JOIN room_places p ON p.voucher_id = r.voucher_id").Limit(sqldb.PurgeBatch).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return 0, s.db.Translate(err)
	}

	err = s.db.Write(ctx, func(tx *gorm.DB) error { return tx.Delete(&rows).Error })
	return len(rows), err
}

// PlacesOf implements domain.PersonalStore. There are few rooms, and the place of a user is found by its primary key.
func (s *Store) PlacesOf(ctx context.Context, userID int64) ([]domain.PlaceRecord, error) {
	return list[domain.PlaceRecord](s, s.db.Reader(ctx).Select("p.voucher_id, p.number, p.joined_at").Table("rooms r").
		Joins("JOIN room_places p ON p.voucher_id = r.voucher_id AND p.user_id = ?", userID).Order("r.voucher_id"))
}

func newRoomEventRow(e *domain.RoomEvent) roomEventRow {
	row := roomEventRow{RoomEvent: *e, Data: []byte{}}
	for _, n := range e.Numbers {
		row.Data = binary.AppendUvarint(row.Data, uint64(n))
	}
	return row
}

func (r *roomEventRow) event() (domain.RoomEvent, error) {
	e := r.RoomEvent
	for data := r.Data; len(data) > 0; {
		n, size := binary.Uvarint(data)
		if size <= 0 || n > 1<<32-1 {
			return e, fmt.Errorf("room_log: event %d of voucher %d cannot be read", r.Seq, r.VoucherID)
		}
		e.Numbers = append(e.Numbers, uint32(n))
		data = data[size:]
	}

	return e, nil
}

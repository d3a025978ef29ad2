package repo

import (
	"context"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

type eventRow struct {
	domain.OrderEvent
	OrderID int64
}

func (eventRow) TableName() string { return "order_events" }

func (r *eventRow) order() int64 { return r.OrderID }

// RecordEvents makes the store write an event with every placement and move of an order. Without it there are none. It
// must be called before the store is used.
func (s *Store) RecordEvents() { s.events = true }

func (s *Store) recordMove(tx *gorm.DB, m domain.Move, at time.Time, orderIDs ...int64) error {
	if !s.events {
		return nil
	}

	var values []any
	for _, id := range orderIDs {
		values = append(values, id, string(m.Event()), at, at)
	}

	return insertEvents(tx, values)
}

func (s *Store) recordPlaced(tx *gorm.DB, placed []*pendingInsert) error {
	if !s.events {
		return nil
	}

	values := make([]any, 0, 4*len(placed))
	for _, p := range placed {
		values = append(values, p.row.ID, string(domain.EventCreated), p.row.CreatedAt, p.row.CreatedAt)
	}

	return insertEvents(tx, values)
}

// insertEvents inserts pending events with one statement, four values each. Like batch.insert it does not use gorm. The
// first try is due at once by the clock of this server; a clock that is ahead of the database's delays it.
func insertEvents(tx *gorm.DB, values []any) error {
	const row = "(?,?,?,?)"
	_, err := tx.Statement.ConnPool.ExecContext(tx.Statement.Context,
		"INSERT INTO order_events (order_id, type, created_at, next_try_at) VALUES "+row+strings.Repeat(","+row, len(values)/4-1), values...)
	return err
}

func (s *Store) dropPlaced(tx *gorm.DB, dropped []*pendingInsert) error {
	if !s.events || len(dropped) == 0 {
		return nil
	}
	return tx.Where("order_id IN ?", idsOf(dropped)).Delete(&eventRow{}).Error
}

// ClaimEvents implements domain.EventStore.
func (s *Store) ClaimEvents(ctx context.Context, limit int, lease time.Duration) ([]domain.OrderEvent, error) {
	for {
		claimed, more, err := s.claimEvents(ctx, limit, lease)
		if err != nil {
			return nil, err
		}

		if len(claimed) > 0 || !more {
			events, err := s.withOrders(ctx, claimed)
			// The reading server may not have the order yet. Its event is due again after the lease.
			return slices.DeleteFunc(events, func(e domain.OrderEvent) bool { return e.Order.ID == 0 }), err
		}
	}
}

// claimEvents is one transaction of ClaimEvents. An event that is due behind an earlier one of its order becomes due
// again with that one, so that events of orders with failing deliveries are not read each time. The second result
// reports that there may be further due events.
func (s *Store) claimEvents(ctx context.Context, limit int, lease time.Duration) ([]eventRow, bool, error) {
	var more bool
	claimed, err := runAt(ctx, s, func(tx *gorm.DB, now time.Time) ([]eventRow, error) {
		due, err := lockDue[eventRow](tx.Where("status = ? AND next_try_at <= ?", domain.EventPending, now), "next_try_at, id", limit)
		more = len(due) == limit
		if err != nil || len(due) == 0 {
			return nil, err
		}

		first, err := firstPending(tx, due)
		if err != nil {
			return nil, err
		}

		leased := now.Add(lease)
		var claimed, waiting []eventRow
		for _, e := range due {
			if e.ID != first[e.OrderID].ID {
				waiting = append(waiting, e)
				continue
			}

			e.Tries++
			claimed = append(claimed, e)
			first[e.OrderID] = eventRow{OrderEvent: domain.OrderEvent{NextTryAt: &leased}}
		}

		for _, e := range waiting {
			if err := tx.Model(&e).Update("next_try_at", first[e.OrderID].NextTryAt).Error; err != nil {
				return nil, err
			}
		}

		if len(claimed) == 0 {
			return nil, nil
		}

		return claimed, tx.Model(&claimed).Updates(map[string]any{"next_try_at": leased, "tries": gorm.Expr("tries + 1")}).Error
	})

	return claimed, more, err
}

func firstPending(tx *gorm.DB, events []eventRow) (map[int64]eventRow, error) {
	var pending []eventRow
	err := tx.Select("id", "order_id", "next_try_at").
		Where("order_id IN ? AND status = ?", column(events, (*eventRow).order), domain.EventPending).
		Order("id DESC").Find(&pending).Error

	return byKey(pending, (*eventRow).order), err
}

func (s *Store) withOrders(ctx context.Context, rows []eventRow) ([]domain.OrderEvent, error) {
	events := make([]domain.OrderEvent, len(rows))
	if len(rows) == 0 {
		return events, nil
	}

	orders, err := list[domain.Order](s, s.db.Reader(ctx).Model(&orderRow{}).Where("id IN ?", column(rows, (*eventRow).order)))
	if err != nil {
		return nil, err
	}
	if err := s.AddOffers(ctx, orders); err != nil {
		return nil, err
	}

	byID := byKey(orders, func(o *domain.Order) int64 { return o.ID })
	for i, r := range rows {
		o := byID[r.OrderID].After(r.Type)
		// It may have been undone since, and redeemed again.
		if o.Status == domain.OrderRedeemed {
			o.RedeemedAt = &rows[i].CreatedAt
		}

		events[i] = r.OrderEvent
		events[i].Order = o
	}

	return events, nil
}

// FinishEvents implements domain.EventStore. The next pending event of an order becomes due when the first one ends.
func (s *Store) FinishEvents(ctx context.Context, results []domain.EventResult) error {
	return s.db.Write(ctx, func(tx *gorm.DB) error {
		now, err := s.db.Now(tx)
		if err != nil {
			return err
		}

		// Orders.
		var ended []int64
		for _, r := range results {
			q := tx.Model(&eventRow{}).Where("id = ? AND status = ?", r.Event.ID, domain.EventPending)

			change := map[string]any{
				"answered_at":   now,
				"answer_status": r.Status,
				"answer":        r.Answer,
				"next_try_at":   nil,
			}

			switch {
			case r.Delivered:
				change["status"] = domain.EventDelivered
			case r.Retry == 0:
				q = q.Where("tries = ?", r.Event.Tries)
				change["status"] = domain.EventFailed
			default:
				q = q.Where("tries = ?", r.Event.Tries)
				change["next_try_at"] = now.Add(r.Retry)
			}

			res := q.Updates(change)
			if res.Error != nil {
				return res.Error
			}

			if res.RowsAffected > 0 && change["status"] != nil {
				ended = append(ended, r.Event.Order.ID)
			}
		}

		if len(ended) == 0 {
			return nil
		}

		return tx.Model(&eventRow{}).Where("order_id IN ? AND status = ? AND next_try_at > ?", ended, domain.EventPending, now).
			Update("next_try_at", now).Error
	})
}

// OrderEvents implements domain.EventStore.
func (s *Store) OrderEvents(ctx context.Context, f domain.EventFilter) ([]domain.OrderEvent, error) {
	matching := eventRow{OrderID: f.OrderID, OrderEvent: domain.OrderEvent{Status: f.Status}}
	q := newest(s.db.Reader(ctx).Where(&matching), f.Page)
	if f.Status == domain.EventDelivered || f.Status == domain.EventFailed {
		// As always, so that the index has them in the order of their ids.
		q = q.Where("next_try_at IS NULL")
	}

	rows, err := list[eventRow](s, q)
	if err != nil {
		return nil, err
	}

	return s.withOrders(ctx, rows)
}

// EventsOf implements domain.PersonalStore.
func (s *Store) EventsOf(ctx context.Context, orderIDs []int64) (map[int64][]domain.EventRecord, error) {
	events, err := list[domain.EventRecord](s, s.db.Reader(ctx).Model(&eventRow{}).Where("order_id IN ?", orderIDs).Order("id"))
	return grouped(events, func(e *domain.EventRecord) int64 { return e.OrderID }), err
}

// failingQuery counts the events whose delivery was given up, and the pending ones whose last delivery failed.
const failingQuery = `
SELECT (SELECT COUNT(*) FROM (SELECT id FROM order_events WHERE status = ? LIMIT ?) f) +
  (SELECT COUNT(*) FROM (SELECT tries, answered_at, repeated_at FROM order_events WHERE status = ? ORDER BY next_try_at LIMIT ?) p
    WHERE tries > 0 AND answered_at IS NOT NULL AND (repeated_at IS NULL OR answered_at >= repeated_at))`

// FailingEvents implements alerts.Failures.
func (s *Store) FailingEvents(ctx context.Context, most int) (int, error) {
	var n int
	err := s.db.Reader(ctx).Raw(failingQuery, domain.EventFailed, most, domain.EventPending, most).Row().Scan(&n)
	return n, s.db.Translate(err)
}

// RepeatEvent implements domain.EventStore.
func (s *Store) RepeatEvent(ctx context.Context, claim *domain.Claim, id int64) error {
	return s.writeOnce(ctx, claim, doneBefore, func(tx *gorm.DB) (int64, error) {
		now, err := s.db.Now(tx)
		if err != nil {
			return 0, err
		}

		var row eventRow
		if err := tx.Clauses(sqldb.ForUpdate).Select("id").Take(&row, id).Error; err != nil {
			return 0, err
		}

		return id, tx.Model(&row).Updates(map[string]any{
			"status":      domain.EventPending,
			"tries":       0,
			"next_try_at": now,
			"repeated_at": now,
		}).Error
	})
}

// PurgeEvents deletes some of the events that were created before a time, and returns their number. It keeps pending events
// while this store records events, because a receiver still gets them. Ids grow with time, so the oldest events come first.
// Error: ErrUnavailable.
func (s *Store) PurgeEvents(ctx context.Context, before time.Time) (int, error) {
	var kept domain.EventStatus
	if s.events {
		kept = domain.EventPending
	}

	oldest, err := list[eventRow](s, s.db.Reader(ctx).Select("id", "status", "created_at").Order("id").Limit(sqldb.PurgeBatch))
	ended := slices.DeleteFunc(oldest, func(e eventRow) bool {
		return e.Status == kept || !e.CreatedAt.Before(before)
	})
	if err != nil || len(ended) == 0 {
		return 0, err
	}

	err = s.db.Writer(ctx).Where("status <> ?", kept).Delete(&ended).Error
	return len(ended), s.db.Translate(err)
}

package repo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"seckill/internal/domain"
	"seckill/internal/repo/sqldb"
)

type paymentRow struct {
	domain.Payment
	NextTryAt *time.Time
}

func (paymentRow) TableName() string { return "payments" }

func (r *paymentRow) payment() domain.Payment { return r.Payment }

// BeginPayment implements domain.PaymentStore. Concurrent calls for one order queue at its row, and the later ones
// return the payment that the first has stored.
func (s *Store) BeginPayment(
	ctx context.Context, claim *domain.Claim, userID int64, p domain.Payment,
) (domain.Order, domain.Payment, error) {
	var order orderRow
	var row paymentRow

	again := func(id int64) error {
		var err error
		if row.Payment, err = s.payment(ctx, id); err == nil {
			order.Order, err = s.Order(ctx, 0, row.OrderID)
		}
		return err
	}

	err := s.writeOnce(ctx, claim, again, func(tx *gorm.DB) (int64, error) {
		var err error
		if order, err = s.lockShownOrder(tx, userID, p.OrderID); err != nil {
			return 0, err
		}
		if order.Status != domain.OrderPendingPayment {
			return 0, domain.ErrInvalidState
		}

		row = paymentRow{}
		err = tx.Where("order_id = ? AND provider = ? AND status = ?", order.ID, p.Provider, domain.PaymentPending).
			Order("id").Take(&row).Error
		if !errors.Is(err, gorm.ErrRecordNotFound) {
			return row.ID, err
		}

		row = paymentRow{Payment: p}
		row.Amount = order.Amount
		row.Currency = order.Currency

		now, err := s.db.Now(tx)
		if err != nil {
			return 0, err
		}

		next := now.Add(firstInquiry)
		if order.ExpiresAt.After(now) {
			next = domain.Earlier(next, order.ExpiresAt)
		}

		row.NextTryAt = &next
		err = tx.Create(&row).Error
		return row.ID, err
	})

	err = s.db.ResolveUnknownCommit(ctx, err, func(tx *gorm.DB) error {
		return tx.Where("provider_ref = ?", row.Ref).Take(&paymentRow{}).Error
	})

	return order.Order, row.Payment, err
}

func (s *Store) payment(ctx context.Context, id int64) (domain.Payment, error) {
	var p domain.Payment
	err := s.db.Writer(ctx).Take(&p, id).Error
	return p, s.db.Translate(err)
}

// lockPaidOrder is lockOrder for the order that a payment names. Of an order that does not exist the money is refunded; it has
// no status.
func lockPaidOrder(tx *gorm.DB, id int64) (orderRow, error) {
	order, err := lockOrder(tx, 0, id)
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return orderRow{Order: domain.Order{ID: id, Currency: domain.DefaultCurrency}}, nil
	}
	return order, err
}

// SettlePayment implements domain.PaymentStore. The notices of one order queue at its row.
func (s *Store) SettlePayment(
	ctx context.Context, provider string, n domain.PaymentNotice, at time.Time,
) (domain.Settled, error) {
	// After an unanswered COMMIT the provider repeats its notice. If the order costs nothing, the buyer pays again.
	return run(ctx, s.db.Write, func(tx *gorm.DB) (domain.Settled, error) {
		order, err := lockPaidOrder(tx, n.OrderID)
		if err != nil {
			return domain.Settled{}, err
		}

		payment, begun, err := paymentOfNotice(tx, &order, provider, n, at)
		if err != nil {
			return domain.Settled{}, err
		}

		was := payment.Status
		held := order.Slot != 0

		err = s.settlePayment(tx, &order, payment, begun, n.Result, at)
		return domain.Settled{
			Order:   order.Order,
			Payment: payment.Payment,
			Changed: payment.Status != was,
			Freed:   held && order.Slot == 0,
		}, err
	})
}

// paymentOfNotice finds the payment of a notice, or stores one of a success that was not begun here; then the second
// result is false.
// The first notice about money that arrived sets the amount and the currency to what was paid. A notice about money that went
// back, which may come before it, must be about the whole of it.
func paymentOfNotice(
	tx *gorm.DB, order *orderRow, provider string, n domain.PaymentNotice, at time.Time,
) (*paymentRow, bool, error) {
	// ISO may have withdrawn the currency of the order since its sale.
	ofOrder := n.Currency == "" || strings.EqualFold(n.Currency, order.Currency)
	if !ofOrder && !domain.IsCurrency(n.Currency) {
		return nil, false, domain.Invalid("currency", "must be an ISO 4217 currency code, such as CNY")
	}

	received := domain.Payment{
		OrderID:   order.ID,
		Provider:  provider,
		Ref:       n.Ref,
		Amount:    order.Amount,
		Currency:  order.Currency,
		Status:    domain.PaymentPending,
		CreatedAt: at,
		UpdatedAt: at,
	}

	if n.Result.Received() {
		received.Amount = n.Amount
		if !ofOrder {
			received.Currency = n.Currency
		}

		free := order.Status != 0 && order.Amount == 0
		if received.Amount < 0 || received.Amount == 0 && !free {
			return nil, false, domain.Invalid("amount", "must be positive")
		}
	}

	find := func() (paymentRow, error) {
		var row paymentRow
		err := tx.Clauses(sqldb.ForUpdate).Where("provider_ref = ?", n.Ref).Take(&row).Error
		return row, err
	}

	row, err := find()
	begun := err == nil

	// Another result that was not begun here is not stored: a later success of its reference would seem to be begun here.
	if errors.Is(err, gorm.ErrRecordNotFound) && n.Result == domain.PaymentSucceeded {
		// A notice for another order may store it meanwhile.
		err = tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&paymentRow{Payment: received}).Error
		if err == nil {
			row, err = find()
		}
	}

	switch {
	case err != nil:
		return nil, false, err
	case row.OrderID != order.ID || row.Provider != provider:
		return nil, false, domain.Invalid("provider_ref", "belongs to another payment")
	case !n.Result.Received():
	case !row.Status.Received() && !n.Result.Returned():
		row.Amount = received.Amount
		row.Currency = received.Currency
	case row.Amount != received.Amount || !strings.EqualFold(row.Currency, received.Currency):
		return nil, false, domain.Invalid("amount", "differs from that of this payment")
	}

	return &row, begun, nil
}

// settlePayment applies the result of a payment, which pays the order only if it was begun here. The payment is locked,
// and so is the order if it exists.
func (s *Store) settlePayment(tx *gorm.DB, order *orderRow, p *paymentRow, begun bool, result domain.PaymentStatus, at time.Time) error {
	status := p.Status
	switch {
	case result.Returned():
		return s.reversePayment(tx, order, p, result, at)
	case status.Received():
		return nil
	case result == domain.PaymentFailed:
		if status == domain.PaymentFailed {
			return nil
		}
		return s.setPayment(tx, p, domain.PaymentFailed, at)
	}

	by := domain.Actor{Kind: domain.ActorProvider}
	reason := "the order is " + order.Status.String()

	switch {
	case order.Status != domain.OrderPendingPayment:
	case !begun:
		reason = "the payment was not begun by this shop"
	default:
		if p.Amount == order.Amount && p.Currency == order.Currency {
			if err := s.setPayment(tx, p, domain.PaymentSucceeded, at); err != nil {
				return err
			}
			return s.move(tx, order, domain.OrderMove{
				Move:   domain.MovePay,
				By:     by,
				At:     at,
				Detail: p.Ref,
			})
		}

		reason = fmt.Sprintf("received %s %s for an order of %s %s",
			domain.FormatAmount(p.Amount, p.Currency), p.Currency,
			domain.FormatAmount(order.Amount, order.Currency), order.Currency)
	}

	if err := s.setPayment(tx, p, domain.PaymentRefunding, at); err != nil {
		return err
	}

	return writeOrderAudit(tx, order, domain.ActionReturnMoney, by, at, p.Ref+": "+reason)
}

// reversePayment records that the money of a payment went back without a request of this shop: refunded by the provider,
// or disputed. It refunds an order that was paid with the payment. A redeemed order keeps its unit, which is used up.
func (s *Store) reversePayment(tx *gorm.DB, order *orderRow, p *paymentRow, result domain.PaymentStatus, at time.Time) error {
	was := p.Status
	if was == result || was == domain.PaymentDisputed {
		return nil
	}

	if err := s.setPayment(tx, p, result, at); err != nil {
		return err
	}

	by := domain.Actor{Kind: domain.ActorProvider}

	if result == domain.PaymentDisputed {
		if err := dispute(tx, order, p, at); err != nil {
			return err
		}
	}

	// The bank took back what had been refunded.
	if was.Returned() {
		return nil
	}

	if was == domain.PaymentSucceeded && order.Status == domain.OrderPaid {
		err := s.move(tx, order, domain.OrderMove{
			Move:   domain.MoveRefund,
			By:     by,
			At:     at,
			Detail: p.Ref + ": " + result.String(),
		})
		if err != nil {
			return err
		}
	}

	_, err := s.finishRefund(tx, order, p, by, at)
	return err
}

func dispute(tx *gorm.DB, order *orderRow, p *paymentRow, at time.Time) error {
	order.Disputed = true
	err := tx.Model(&orderRow{}).Where("id = ?", order.ID).Updates(map[string]any{"disputed": true, "updated_at": at}).Error
	if err != nil {
		return err
	}

	return writeOrderAudit(tx, order, domain.ActionDispute, domain.Actor{Kind: domain.ActorProvider}, at, p.Ref)
}

// setPayment changes the status of a payment that the transaction has locked. A refund is due at once by the database's
// clock, which DueRefunds uses; at comes from the clock of an instance.
func (s *Store) setPayment(tx *gorm.DB, p *paymentRow, status domain.PaymentStatus, at time.Time) error {
	p.Status = status
	p.UpdatedAt = at
	p.NextTryAt = nil
	if status == domain.PaymentRefunding {
		now, err := s.db.Now(tx)
		if err != nil {
			return err
		}
		p.NextTryAt = &now
	}

	return tx.Model(&paymentRow{}).Where("id = ?", p.ID).
		Updates(map[string]any{
			"status":      p.Status,
			"amount":      p.Amount,
			"currency":    p.Currency,
			"updated_at":  at,
			"next_try_at": p.NextTryAt,
		}).Error
}

// BeginRefund implements domain.PaymentStore.
func (s *Store) BeginRefund(ctx context.Context, refund domain.OrderMove) (domain.Order, error) {
	refund.Move = domain.MoveRefund

	return s.moveOnce(ctx, refund, func(tx *gorm.DB, order *orderRow) error {
		var paid paymentRow
		err := tx.Clauses(sqldb.ForUpdate).Where("order_id = ? AND status = ?", order.ID, domain.PaymentSucceeded).Take(&paid).Error
		if errors.Is(err, gorm.ErrRecordNotFound) {
			return s.move(tx, order, domain.OrderMove{
				Move:   domain.MoveRefunded,
				By:     domain.Actor{Kind: domain.ActorSystem},
				At:     refund.At,
				Detail: "no payment was received",
			})
		}

		if err != nil {
			return err
		}

		return s.setPayment(tx, &paid, domain.PaymentRefunding, refund.At)
	})
}

// DueRefunds implements domain.PaymentStore.
func (s *Store) DueRefunds(ctx context.Context, limit int, wait func(tries int) time.Duration) ([]domain.Payment, error) {
	return runAt(ctx, s, func(tx *gorm.DB, now time.Time) ([]domain.Payment, error) {
		rows, err := lockDue[paymentRow](tx.Where("status = ? AND next_try_at <= ?", domain.PaymentRefunding, now), "next_try_at", limit)
		if err != nil {
			return nil, err
		}

		for i := range rows {
			r := &rows[i]
			next := now.Add(wait(r.RefundTries))
			r.RefundTries++
			err := tx.Model(r).Updates(map[string]any{"next_try_at": next, "refund_tries": r.RefundTries}).Error
			if err != nil {
				return nil, err
			}
		}

		return column(rows, (*paymentRow).payment), nil
	})
}

const (
	// firstInquiry is the age from which DueInquiries returns a payment, unless the time to pay ends before.
	firstInquiry = 5 * time.Second
	// freshPayment is the age up to which half of a batch is for a payment: its buyer waits, and its order has not expired.
	freshPayment = 15 * time.Minute
)

// DueInquiries is described where package payment declares it. Abandoned payments can be due faster than a slow provider
// answers. Half of the batch is therefore for fresh ones first. The rest is for whichever has been due the longest.
func (s *Store) DueInquiries(
	ctx context.Context, provider string, limit int, wait func(age time.Duration) time.Duration,
) ([]domain.Payment, error) {
	return runAt(ctx, s, func(tx *gorm.DB, now time.Time) ([]domain.Payment, error) {
		// A fresh payment has not been due for long either, which bounds the part of the index that is read.
		since := now.Add(-freshPayment)
		due, err := claimInquiries(tx.Where("next_try_at > ? AND created_at > ?", since, since), now, provider, limit/2, wait)
		if err != nil {
			return nil, err
		}

		rest, err := claimInquiries(tx, now, provider, limit-len(due), wait)
		return append(due, rest...), err
	})
}

// claimInquiries returns at most limit due payments of a query, those that have been due the longest first, and sets when
// they are due again.
func claimInquiries(
	tx *gorm.DB, now time.Time, provider string, limit int, wait func(age time.Duration) time.Duration,
) ([]domain.Payment, error) {
	pending := tx.Where("status = ? AND next_try_at <= ? AND provider = ?", domain.PaymentPending, now, provider)
	rows, err := lockDue[paymentRow](pending, "next_try_at", limit)
	if err != nil {
		return nil, err
	}

	tx = tx.Session(&gorm.Session{NewDB: true})
	ends, err := paymentEnds(tx, rows)
	if err != nil {
		return nil, err
	}

	due := make([]domain.Payment, len(rows))
	for i := range rows {
		next := nextInquiry(now, rows[i].CreatedAt, ends[rows[i].OrderID], wait)
		if err := tx.Model(&rows[i]).Update("next_try_at", next).Error; err != nil {
			return nil, err
		}

		due[i] = rows[i].Payment
		due[i].ClaimedAt = now
	}

	return due, nil
}

func paymentEnds(tx *gorm.DB, payments []paymentRow) (map[int64]time.Time, error) {
	if len(payments) == 0 {
		return nil, nil
	}

	ids := column(payments, func(p *paymentRow) int64 { return p.OrderID })
	var orders []orderRow
	err := tx.Select("id", "expires_at").Where("id IN ? AND status = ?", ids, domain.OrderPendingPayment).Find(&orders).Error
	return mapped(orders, func(o *orderRow) (int64, time.Time) { return o.ID, o.ExpiresAt }), err
}

// nextInquiry returns when a payment that is claimed now is queried again, or nil for never. end is when the time to pay its
// order ends, or zero if the order is not open.
func nextInquiry(now, created, end time.Time, wait func(age time.Duration) time.Duration) *time.Time {
	pause := wait(now.Sub(created))
	if pause == 0 {
		return nil
	}

	next := now.Add(pause)
	switch {
	case end.After(now):
		next = domain.Earlier(next, end)
	case !end.IsZero():
		next = domain.Earlier(next, now.Add(wait(0)))
	}

	return &next
}

// NoteQueried is described where package payment declares it.
func (s *Store) NoteQueried(ctx context.Context, p domain.Payment) error {
	return s.db.Write(ctx, func(tx *gorm.DB) error {
		return tx.Model(&paymentRow{}).Where("id = ? AND status = ?", p.ID, domain.PaymentPending).Update("queried_at", p.ClaimedAt).Error
	})
}

// FinishRefund implements domain.PaymentStore.
func (s *Store) FinishRefund(ctx context.Context, p domain.Payment, at time.Time) (domain.Settled, error) {
	return run(ctx, s.db.Write, func(tx *gorm.DB) (domain.Settled, error) {
		return s.endRefund(tx, domain.OutsideReturn{
			OrderID: p.OrderID,
			Ref:     p.Ref,
			By:      domain.Actor{Kind: domain.ActorProvider},
			At:      at,
		})
	})
}

// endRefund ends the refund of a payment. It changes nothing if the money is not being returned. Without a reason it was
// returned by the provider.
func (s *Store) endRefund(tx *gorm.DB, r domain.OutsideReturn) (domain.Settled, error) {
	order, err := lockPaidOrder(tx, r.OrderID)
	if err != nil {
		return domain.Settled{}, err
	}

	var p paymentRow
	err = tx.Clauses(sqldb.ForUpdate).Where("provider_ref = ? AND order_id = ?", r.Ref, r.OrderID).Take(&p).Error
	if err != nil || p.Status != domain.PaymentRefunding {
		return domain.Settled{}, err
	}

	if err := s.setPayment(tx, &p, domain.PaymentRefunded, r.At); err != nil {
		return domain.Settled{}, err
	}

	if r.Reason != "" {
		err := writeOrderAudit(tx, &order, domain.ActionOutsideReturn, r.By, r.At, p.Ref+": "+r.Reason)
		if err != nil {
			return domain.Settled{}, err
		}
	}

	freed, err := s.finishRefund(tx, &order, &p, r.By, r.At)
	return domain.Settled{
		Order:   order.Order,
		Payment: p.Payment,
		Changed: true,
		Freed:   freed,
	}, err
}

// finishRefund applies domain.MoveRefunded if the order is refunding and none of its payments remains to be refunded.
// Otherwise it only logs the refund of p.
func (s *Store) finishRefund(tx *gorm.DB, order *orderRow, p *paymentRow, by domain.Actor, at time.Time) (bool, error) {
	var open int64
	err := tx.Model(&paymentRow{}).Where("order_id = ? AND status IN ?", order.ID,
		[]domain.PaymentStatus{domain.PaymentSucceeded, domain.PaymentRefunding}).Count(&open).Error
	if err != nil {
		return false, err
	}

	if order.Status == domain.OrderRefunding {
		if open == 0 {
			return true, s.move(tx, order, domain.OrderMove{
				Move:   domain.MoveRefunded,
				By:     by,
				At:     at,
				Detail: p.Ref,
			})
		}

		// Locks on Galera exclude no transaction on another node, but a change of the same row does: of the last two refunds,
		// one must see the other.
		if err := tx.Model(&orderRow{}).Where("id = ?", order.ID).Update("updated_at", at).Error; err != nil {
			return false, err
		}
	}

	return false, writeOrderAudit(tx, order, domain.ActionMoneyReturned, by, at, p.Ref)
}

// FailRefund implements domain.PaymentStore.
func (s *Store) FailRefund(ctx context.Context, paymentID int64, why string) error {
	return s.db.Write(ctx, func(tx *gorm.DB) error {
		return tx.Model(&paymentRow{}).Where("id = ? AND status = ?", paymentID, domain.PaymentRefunding).
			Update("refund_error", cut(why)).Error
	})
}

// ReturnOutside implements domain.PaymentStore.
func (s *Store) ReturnOutside(ctx context.Context, r domain.OutsideReturn) (domain.Settled, error) {
	var settled domain.Settled
	err := s.writeOnce(ctx, r.Claim, readAgain(ctx, &settled.Payment, s.payment), func(tx *gorm.DB) (int64, error) {
		var err error
		settled, err = s.endRefund(tx, r)
		if err == nil && !settled.Changed {
			err = domain.ErrInvalidState
		}

		return settled.Payment.ID, err
	})

	return settled, err
}

const (
	// failedTries is the number of tries after which a refund that fails needs an operator.
	failedTries = 5
	// maxFailingSeen bounds the refunds that FailingRefunds reads. Those that are tried again latest come first.
	maxFailingSeen = 1000
)

// failingRefunds finds the payments whose refund has failed several times.
const failingRefunds = `
SELECT * FROM (SELECT * FROM payments WHERE status = ? ORDER BY next_try_at DESC LIMIT ?) p
WHERE refund_tries >= ? AND refund_error <> '' ORDER BY id LIMIT ?`

// FailingRefunds implements alerts.Failures.
func (s *Store) FailingRefunds(ctx context.Context, most int) ([]domain.Payment, error) {
	return list[domain.Payment](s, s.db.Reader(ctx).Raw(failingRefunds, domain.PaymentRefunding, maxFailingSeen, failedTries, most))
}

// Backlog is the work that is due.
type Backlog struct {
	// Unpaid orders whose time to pay is over.
	Orders int64
	// How long the oldest of them has been overdue.
	OldestOrder time.Duration
	// Payments to be refunded.
	Refunds int64
	// How long the oldest of them has been due.
	OldestRefund time.Duration
	// Events of orders that are not delivered; 0 if the store records none.
	Events int64
	// Age of the oldest of them.
	OldestEvent time.Duration
	// The notices of providers that could not be processed, and are open.
	Notices int64
}

// Backlog counts what is due by the database's clock. Error: domain.ErrUnavailable.
func (s *Store) Backlog(ctx context.Context) (Backlog, error) {
	var b Backlog
	db := s.db.Reader(ctx)
	now, err := s.db.Now(db)
	if err != nil {
		return b, s.db.Translate(err)
	}

	pending := db.Model(&orderRow{}).Where("status = ? AND expires_at <= ?", domain.OrderPendingPayment, now)
	if b.Orders, b.OldestOrder, err = backlogOf(pending, "expires_at", now); err != nil {
		return b, s.db.Translate(err)
	}

	refunding := db.Model(&paymentRow{}).Where("status = ?", domain.PaymentRefunding)
	if b.Refunds, b.OldestRefund, err = backlogOf(refunding, "updated_at", now); err != nil {
		return b, s.db.Translate(err)
	}

	if s.events {
		if b.Events, b.OldestEvent, err = eventBacklog(db, now); err != nil {
			return b, s.db.Translate(err)
		}
	}

	b.Notices, err = s.OpenNotices(ctx)
	return b, err
}

// eventBacklog reads an index only, because a receiver that was down for a day leaves millions of events. The first of them
// is the oldest.
func eventBacklog(db *gorm.DB, now time.Time) (int64, time.Duration, error) {
	var n, first int64
	err := db.Model(&eventRow{}).Where("status = ?", domain.EventPending).Select("COUNT(*), COALESCE(MIN(id), 0)").Row().Scan(&n, &first)
	if err != nil || n == 0 {
		return n, 0, err
	}

	_, age, err := backlogOf(db.Model(&eventRow{}).Where("id = ?", first), "created_at", now)
	return n, age, err
}

func backlogOf(rows *gorm.DB, column string, now time.Time) (int64, time.Duration, error) {
	var n int64
	if err := rows.Session(&gorm.Session{}).Count(&n).Error; err != nil || n == 0 {
		return n, 0, err
	}

	var oldest []time.Time
	err := rows.Session(&gorm.Session{}).Order(column).Limit(1).Pluck(column, &oldest).Error
	if err != nil || len(oldest) == 0 {
		return n, 0, err
	}

	// Negative if the clock of an instance is ahead.
	return n, max(0, now.Sub(oldest[0])), nil
}

// Payments implements domain.PaymentStore.
func (s *Store) Payments(ctx context.Context, userID, orderID int64) ([]domain.Payment, error) {
	if _, err := s.Order(ctx, userID, orderID); err != nil {
		return nil, err
	}

	return list[domain.Payment](s, s.db.Reader(ctx).Where("order_id = ?", orderID).Order("id"))
}

// PaymentsOf implements domain.PersonalStore.
func (s *Store) PaymentsOf(ctx context.Context, orderIDs []int64) (map[int64][]domain.Payment, error) {
	all, err := list[domain.Payment](s, s.db.Reader(ctx).Where("order_id IN ?", orderIDs).Order("id"))
	return grouped(all, func(p *domain.Payment) int64 { return p.OrderID }), err
}

// ListPayments implements handler.Store.
func (s *Store) ListPayments(ctx context.Context, p domain.Page) ([]domain.SalePayment, error) {
	return list[domain.SalePayment](s, newest(s.db.Reader(ctx).Model(&paymentRow{}), p).
		Select("payments.*, COALESCE((SELECT o.voucher_id FROM voucher_orders o WHERE o.id = payments.order_id), 0) AS voucher_id"))
}

// PaidWith implements handler.Store. Other payments of an order may have arrived as well, and went back, so the log decides.
// Its index is that of the orders, because all orders share few actions.
func (s *Store) PaidWith(ctx context.Context, orderIDs []int64) (map[int64]string, error) {
	entries, err := list[domain.AuditEntry](s, s.db.Reader(ctx).Table(auditTable).Where("order_id IN ?", orderIDs))

	refs := map[int64]string{}
	for _, e := range entries {
		if e.Action == domain.MovePay.Name {
			refs[e.OrderID] = e.Detail
		}
	}

	return refs, err
}

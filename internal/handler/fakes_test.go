package handler_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/picture"
	"seckill/internal/repo"
	"seckill/internal/search"
	"seckill/internal/shop"
)

// clock is a time that tests advance.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) now() time.Time          { return time.UnixMilli(c.at.Load()).UTC() }
func (c *clock) advance(d time.Duration) { c.at.Add(d.Milliseconds()) }

// userLocks are in-memory locks of users. A test can take one or make all of them fail.
type userLocks struct {
	mu   sync.Mutex
	held map[int64]bool
	err  error
}

func newUserLocks() *userLocks { return &userLocks{held: map[int64]bool{}} }

// TryDo implements lane.UserLocks.
func (l *userLocks) TryDo(ctx context.Context, userID int64, fn func(context.Context) error) error {
	if err := l.take(userID); err != nil {
		return err
	}
	defer l.release(userID)
	return fn(ctx)
}

func (l *userLocks) take(userID int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return l.err
	case l.held[userID]:
		return domain.ErrOrderInProgress
	}
	l.held[userID] = true
	return nil
}

func (l *userLocks) release(userID int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, userID)
}

// free reports whether no lock is held.
func (l *userLocks) free() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held) == 0
}

func (l *userLocks) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// ids counts up from an id that a JavaScript number cannot represent.
type ids struct{ last atomic.Int64 }

func newIDs() *ids {
	i := &ids{}
	i.last.Store(3368803458027454464)
	return i
}

// NextN implements lane.IDs.
func (i *ids) NextN(_ context.Context, n int) ([]int64, error) {
	block := make([]int64, n)
	for k := range block {
		block[k] = i.last.Add(1)
	}
	return block, nil
}

// Skip implements lane.IDs.
func (i *ids) Skip(_ context.Context, taken int64) error { i.last.Store(taken + 1000); return nil }

// outbox stores the sent login codes.
type outbox struct {
	mu    sync.Mutex
	codes map[string]string
}

// SendCode implements service.CodeSender.
func (o *outbox) SendCode(_ context.Context, phone, code string, _ time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.codes[phone] = code
	return nil
}

func (o *outbox) code(phone string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.codes[phone]
}

// all returns the last code of each phone.
func (o *outbox) all() map[string]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.codes)
}

// usedSolutions remembers the used solutions. A test can make it fail.
type usedSolutions struct {
	mu  sync.Mutex
	ids map[string]bool
	err error
}

// UseUp implements entry.UsedSolutions.
func (u *usedSolutions) UseUp(_ context.Context, id string, _ time.Duration) (bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil {
		return false, u.err
	}
	used := u.ids[id]
	u.ids[id] = true
	return !used, nil
}

// GiveBack implements entry.UsedSolutions.
func (u *usedSolutions) GiveBack(_ context.Context, id string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.ids, id)
	return u.err
}

func (u *usedSolutions) fail(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.err = err
}

// logBuffer stores the log.
type logBuffer struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// of returns the lines at a level ("ERROR", "WARN").
func (l *logBuffer) of(level string) []map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []map[string]any
	for text := range strings.Lines(l.all.String()) {
		var line map[string]any
		if json.Unmarshal([]byte(text), &line) == nil && line["level"] == level {
			lines = append(lines, line)
		}
	}
	return lines
}

// faultyStore is the real store, whose methods for requests fail while a fault is set.
type faultyStore struct {
	*repo.Store
	fault       atomic.Pointer[func() error]
	failAnswers atomic.Bool  // answers of keyed requests cannot be stored
	slides      atomic.Int64 // number of extended idle-timeout sessions
}

// fail makes every later call run f first and return its error. A nil f ends the fault.
func (s *faultyStore) fail(f func() error) {
	if f == nil {
		s.fault.Store(nil)
		return
	}
	s.fault.Store(&f)
}

func (s *faultyStore) hit() error {
	if f := s.fault.Load(); f != nil {
		return (*f)()
	}
	return nil
}

// orFault runs f unless a fault is set.
func orFault[T any](s *faultyStore, f func() (T, error)) (T, error) {
	if err := s.hit(); err != nil {
		var none T
		return none, err
	}
	return f()
}

func (s *faultyStore) AddLoginRequest(ctx context.Context, r auth.LoginRequest) error {
	_, err := orFault(s, func() (int, error) { return 0, s.Store.AddLoginRequest(ctx, r) })
	return err
}

func (s *faultyStore) OpenSession(
	ctx context.Context, g auth.Guess, u domain.User, sess auth.Session, check func(*auth.LoginRequest) bool, confirm auth.ConfirmFunc,
) (domain.User, error) {
	return orFault(s, func() (domain.User, error) { return s.Store.OpenSession(ctx, g, u, sess, check, confirm) })
}

func (s *faultyStore) User(ctx context.Context, id int64) (domain.User, error) {
	return orFault(s, func() (domain.User, error) { return s.Store.User(ctx, id) })
}

func (s *faultyStore) RotateSession(ctx context.Context, r auth.Rotation) (domain.User, bool, error) {
	if err := s.hit(); err != nil {
		return domain.User{}, false, err
	}
	return s.Store.RotateSession(ctx, r)
}

func (s *faultyStore) SlideSession(ctx context.Context, id string, after, expires time.Time) (domain.User, error) {
	return orFault(s, func() (domain.User, error) { s.slides.Add(1); return s.Store.SlideSession(ctx, id, after, expires) })
}

func (s *faultyStore) RevokeSession(ctx context.Context, id string, now, keep time.Time) error {
	_, err := orFault(s, func() (int, error) { return 0, s.Store.RevokeSession(ctx, id, now, keep) })
	return err
}

func (s *faultyStore) RevokeSessions(ctx context.Context, user int64, now, keep time.Time) ([]string, error) {
	return orFault(s, func() ([]string, error) { return s.Store.RevokeSessions(ctx, user, now, keep) })
}

func (s *faultyStore) EraseUser(ctx context.Context, er auth.Erasure) ([]string, error) {
	return orFault(s, func() ([]string, error) { return s.Store.EraseUser(ctx, er) })
}

func (s *faultyStore) CreateVoucher(ctx context.Context, claim *domain.Claim, v *domain.Voucher, by domain.Actor) error {
	_, err := orFault(s, func() (int, error) { return 0, s.Store.CreateVoucher(ctx, claim, v, by) })
	return err
}

func (s *faultyStore) ChangeVoucher(
	ctx context.Context, id int64, by domain.Actor, f func(*domain.Voucher) (string, error),
) (domain.Voucher, error) {
	return orFault(s, func() (domain.Voucher, error) { return s.Store.ChangeVoucher(ctx, id, by, f) })
}

func (s *faultyStore) ChangeStock(ctx context.Context, c domain.StockChange) (domain.Voucher, error) {
	return orFault(s, func() (domain.Voucher, error) { return s.Store.ChangeStock(ctx, c) })
}

func (s *faultyStore) ChangeRoom(
	ctx context.Context, claim *domain.Claim, id int64, by domain.Actor, at time.Time, ch domain.RoomChange,
) (domain.Voucher, error) {
	return orFault(s, func() (domain.Voucher, error) { return s.Store.ChangeRoom(ctx, claim, id, by, at, ch) })
}

func (s *faultyStore) BeginPayment(
	ctx context.Context, claim *domain.Claim, user int64, p domain.Payment,
) (o domain.Order, paid domain.Payment, err error) {
	if err := s.hit(); err != nil {
		return o, paid, err
	}
	return s.Store.BeginPayment(ctx, claim, user, p)
}

func (s *faultyStore) SettlePayment(
	ctx context.Context, provider string, n domain.PaymentNotice, at time.Time,
) (domain.Settled, error) {
	return orFault(s, func() (domain.Settled, error) { return s.Store.SettlePayment(ctx, provider, n, at) })
}

func (s *faultyStore) BeginRefund(ctx context.Context, m domain.OrderMove) (domain.Order, error) {
	return orFault(s, func() (domain.Order, error) { return s.Store.BeginRefund(ctx, m) })
}

func (s *faultyStore) Payments(ctx context.Context, user, order int64) ([]domain.Payment, error) {
	return orFault(s, func() ([]domain.Payment, error) { return s.Store.Payments(ctx, user, order) })
}

func (s *faultyStore) OrderEvents(ctx context.Context, f domain.EventFilter) ([]domain.OrderEvent, error) {
	return orFault(s, func() ([]domain.OrderEvent, error) { return s.Store.OrderEvents(ctx, f) })
}

func (s *faultyStore) RepeatEvent(ctx context.Context, claim *domain.Claim, id int64) error {
	_, err := orFault(s, func() (int, error) { return 0, s.Store.RepeatEvent(ctx, claim, id) })
	return err
}

func (s *faultyStore) FailingEvents(ctx context.Context, most int) (int, error) {
	return orFault(s, func() (int, error) { return s.Store.FailingEvents(ctx, most) })
}

func (s *faultyStore) FindOrders(ctx context.Context, f search.Query) ([]domain.Order, error) {
	return orFault(s, func() ([]domain.Order, error) { return s.Store.FindOrders(ctx, f) })
}

func (s *faultyStore) AuditLog(ctx context.Context, f domain.AuditFilter) ([]domain.AuditEntry, error) {
	return orFault(s, func() ([]domain.AuditEntry, error) { return s.Store.AuditLog(ctx, f) })
}

func (s *faultyStore) RecordRequest(ctx context.Context, r *domain.AdminRequest) error {
	_, err := orFault(s, func() (int, error) { return 0, s.Store.RecordRequest(ctx, r) })
	return err
}

func (s *faultyStore) FinishRequest(ctx context.Context, id int64, status int) error {
	_, err := orFault(s, func() (int, error) { return 0, s.Store.FinishRequest(ctx, id, status) })
	return err
}

func (s *faultyStore) AdminRequests(ctx context.Context, f domain.RequestFilter) ([]domain.AdminRequest, error) {
	return orFault(s, func() ([]domain.AdminRequest, error) { return s.Store.AdminRequests(ctx, f) })
}

func (s *faultyStore) Voucher(ctx context.Context, id int64) (domain.Voucher, error) {
	return orFault(s, func() (domain.Voucher, error) { return s.Store.Voucher(ctx, id) })
}

func (s *faultyStore) Vouchers(ctx context.Context, ids []int64) ([]domain.Voucher, error) {
	return orFault(s, func() ([]domain.Voucher, error) { return s.Store.Vouchers(ctx, ids) })
}

func (s *faultyStore) NewestVouchers(ctx context.Context, most int) ([]domain.Voucher, error) {
	return orFault(s, func() ([]domain.Voucher, error) { return s.Store.NewestVouchers(ctx, most) })
}

func (s *faultyStore) Shop(ctx context.Context, id int64) (shop.Shop, error) {
	return orFault(s, func() (shop.Shop, error) { return s.Store.Shop(ctx, id) })
}

func (s *faultyStore) Shops(ctx context.Context, p domain.Page) ([]shop.Shop, error) {
	return orFault(s, func() ([]shop.Shop, error) { return s.Store.Shops(ctx, p) })
}

func (s *faultyStore) Picture(ctx context.Context, id string) (picture.Picture, error) {
	return orFault(s, func() (picture.Picture, error) { return s.Store.Picture(ctx, id) })
}

func (s *faultyStore) ListShops(ctx context.Context, f shop.Filter) ([]shop.Shop, error) {
	return orFault(s, func() ([]shop.Shop, error) { return s.Store.ListShops(ctx, f) })
}

func (s *faultyStore) ListVouchers(ctx context.Context, f domain.VoucherFilter) ([]domain.Voucher, error) {
	return orFault(s, func() ([]domain.Voucher, error) { return s.Store.ListVouchers(ctx, f) })
}

func (s *faultyStore) PlaceOrders(ctx context.Context, orders []domain.NewOrder) []domain.Placed {
	if err := s.hit(); err != nil {
		return slices.Repeat([]domain.Placed{{Err: err}}, len(orders))
	}
	return s.Store.PlaceOrders(ctx, orders)
}

func (s *faultyStore) MoveOrder(ctx context.Context, m domain.OrderMove) (domain.Order, error) {
	return orFault(s, func() (domain.Order, error) { return s.Store.MoveOrder(ctx, m) })
}

func (s *faultyStore) Order(ctx context.Context, userID, id int64) (domain.Order, error) {
	return orFault(s, func() (domain.Order, error) { return s.Store.Order(ctx, userID, id) })
}

func (s *faultyStore) StoredOrders(ctx context.Context, userID int64, ids []int64) ([]int64, error) {
	return orFault(s, func() ([]int64, error) { return s.Store.StoredOrders(ctx, userID, ids) })
}

func (s *faultyStore) ActiveOrders(ctx context.Context, userID, voucherID int64) (int, int64, error) {
	if err := s.hit(); err != nil {
		return 0, 0, err
	}
	return s.Store.ActiveOrders(ctx, userID, voucherID)
}

func (s *faultyStore) SaleRecords(ctx context.Context, of []domain.SaleUser) (map[domain.SaleUser]domain.SaleRecord, error) {
	return orFault(s, func() (map[domain.SaleUser]domain.SaleRecord, error) { return s.Store.SaleRecords(ctx, of) })
}

func (s *faultyStore) UnpaidOrders(ctx context.Context, users []int64) (map[int64]int, error) {
	return orFault(s, func() (map[int64]int, error) { return s.Store.UnpaidOrders(ctx, users) })
}

func (s *faultyStore) ListOrders(ctx context.Context, f domain.OrderFilter) ([]domain.Order, error) {
	return orFault(s, func() ([]domain.Order, error) { return s.Store.ListOrders(ctx, f) })
}

func (s *faultyStore) ClaimKeys(ctx context.Context, claims []*domain.Claim) []domain.KeyState {
	if err := s.hit(); err != nil {
		return slices.Repeat([]domain.KeyState{{Err: err}}, len(claims))
	}
	return s.Store.ClaimKeys(ctx, claims)
}

func (s *faultyStore) KeepAnswers(ctx context.Context, answers []domain.KeptAnswer) []error {
	if s.failAnswers.Load() {
		return slices.Repeat([]error{domain.ErrUnavailable}, len(answers))
	}
	return s.Store.KeepAnswers(ctx, answers)
}

// noPeers implements entry.Peers for a server that is alone.
type noPeers struct{}

func (noPeers) Exchange(_ context.Context, _ int64, report []byte, _ time.Duration) ([][]byte, error) {
	return [][]byte{report}, nil
}

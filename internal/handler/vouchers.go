package handler

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
)

// voucherOut is the JSON form of a voucher. A normal voucher has no fields of a sale.
type voucherOut struct {
	*domain.Voucher
	*domain.Sale

	State    domain.SaleState `json:"state"`
	ImageURL string           `json:"image_url,omitempty"`
	Entry    *entryOut        `json:"entry,omitempty"`
	// Seconds; absent if it is the server's default.
	PayTimeout int64 `json:"pay_timeout,omitempty"`
	// Absent if it is 1.
	Segments   int       `json:"segments,omitempty"`
	ServerTime time.Time `json:"server_time"`
}

type entryOut struct {
	Mode string `json:"mode"`
	// "on"; absent if off.
	Challenge string `json:"challenge,omitempty"`
	// Seconds; only of a sale that needs passes.
	PassTTL int64 `json:"pass_ttl,omitempty"`

	// Only of a sale with a waiting room.
	OpensAt *time.Time `json:"opens_at,omitempty"`
	// Buyers per second.
	Rate    int    `json:"rate,omitempty"`
	Paused  bool   `json:"paused,omitempty"`
	Message string `json:"message,omitempty"`
}

func newEntryOut(s *domain.Sale) *entryOut {
	e := &s.Entry
	o := &entryOut{Mode: e.Mode.String()}
	if e.Mode != domain.EntryOpen {
		o.PassTTL = int64(e.PassTTL / time.Second)
	}
	if e.Challenge {
		o.Challenge = "on"
	}

	if e.Mode == domain.EntryRoom {
		opens := e.Opens(s.BeginAt)
		o.OpensAt = &opens
		o.Rate = e.Rate
		o.Paused = e.Paused
		o.Message = e.Message
	}

	return o
}

func (a *api) voucher(v *domain.Voucher) voucherOut {
	return newVoucherOut(v, domain.Moment(a.Now()))
}

func newVoucherOut(v *domain.Voucher, now time.Time) voucherOut {
	o := voucherOut{
		Voucher:    v,
		Sale:       v.Sale,
		State:      v.State(now),
		ServerTime: now,
	}

	if v.ImageID != "" {
		o.ImageURL = ImageURL(v.ImageID)
	}

	if s := v.Sale; s != nil {
		o.Entry = newEntryOut(s)
		o.PayTimeout = int64(s.PayTimeout / time.Second)

		if s.Segments > 1 {
			o.Segments = s.Segments
		}
	}

	return o
}

// voucherEnd is the JSON of a voucher after the value of server_time, its last field.
const voucherEnd = `"}`

// encodeVoucher returns the JSON form of a voucher in its state at now, up to the value of server_time. It is called once
// for each read of a voucher, so reflection costs little.
func encodeVoucher(v *domain.Voucher, now time.Time) []byte {
	// Numbers, texts and times always have a JSON form.
	text, _ := json.Marshal(newVoucherOut(v, now))
	const last = `"server_time":"`
	return text[:bytes.LastIndex(text, []byte(last))+len(last)]
}

func (a *api) showVoucher(c *gin.Context, id int64) error {
	v, err := a.Vouchers.Get(c.Request.Context(), id)
	if err != nil {
		return err
	}

	if v.Unpublished() {
		return a.staff.reveal(c, domain.ErrNotFound, func() error { return a.writeVoucher(c, v) })
	}

	return a.writeVoucher(c, v)
}

func (a *api) writeVoucher(c *gin.Context, v *domain.Voucher) error {
	now := domain.Moment(a.Now())
	a.voucherSnapshot(v, now).write(c, now)
	return nil
}

func (a *api) voucherSnapshot(v *domain.Voucher, now time.Time) *snapshot {
	if snap := a.shown.get(v.ID, v, now); snap != nil {
		return snap
	}

	snap := newSnapshot(part{json: encodeVoucher(v, now)}, part{lead: voucherEnd})
	return a.shown.put(v.ID, cachedSnapshot{snap, v, now, v.Until(now)})
}

var parseSaleState = oneOf(domain.StateUpcoming, domain.StateOnSale, domain.StateSoldOut, domain.StateEnded)

// listVouchers returns vouchers. The query's status is the merchant's status, the state of the sale, or "current" for all that have
// not ended.
func (a *api) listVouchers(c *gin.Context) error {
	q := &query{c: c}
	page := q.page(a.CursorKeys)
	f := domain.VoucherFilter{ShopID: q.id("shop_id"), Page: page.Page}
	if q.err != nil {
		return q.err
	}

	if s := c.Query("status"); s != "" {
		f.Status, _ = domain.ParseVoucherStatus(s)
		f.State, _ = parseSaleState(s)
		f.Lasts = s == "current"

		if f.Status == 0 && f.State == "" && !f.Lasts {
			return domain.Invalid("status", "must be on, off, expired, draft, current, upcoming, on_sale, sold_out or ended")
		}

		if f.Status == domain.VoucherOff || f.Status == domain.VoucherDraft {
			// Copies, so that the closure moves only these to the heap.
			unpublished := f
			requested := page
			return a.staff.reveal(c, nil, func() error { return a.writeVouchers(c, requested, unpublished) })
		}
	}

	return a.writeVouchers(c, page, f)
}

func (a *api) writeVouchers(c *gin.Context, page pageRequest, f domain.VoucherFilter) error {
	return a.writeVoucherList(c, a.lists, f, func(vouchers []*domain.Voucher, now time.Time) (*snapshot, error) {
		return a.voucherPage(page, vouchers, now), nil
	})
}

// writeVoucherList writes a list, which encode encodes unless it is in lists, where it stays while the catalog is the same. A
// list with vouchers that are not in the catalog is not cached, and is limited for visitors.
func (a *api) writeVoucherList(
	c *gin.Context, lists snapshots, f domain.VoucherFilter, encode func([]*domain.Voucher, time.Time) (*snapshot, error),
) error {
	catalog, err := a.Vouchers.Catalog(c.Request.Context())
	if err != nil {
		return err
	}

	now := domain.Moment(a.Now())
	if snap := lists.get(f, catalog, now); snap != nil {
		snap.write(c, now)
		return nil
	}

	vouchers, complete := catalog.List(f, now)
	if !complete {
		if err := a.limits.visit(c); err != nil {
			return err
		}
		if vouchers, err = a.Vouchers.Older(c.Request.Context(), f, now); err != nil {
			return err
		}
	}

	snap, err := encode(vouchers, now)
	if err != nil {
		return err
	}

	if complete {
		snap = lists.put(f, cachedSnapshot{snap, catalog, now, catalog.Until(now)})
	}

	snap.write(c, now)
	return nil
}

func (a *api) voucherPage(p pageRequest, vouchers []*domain.Voucher, now time.Time) *snapshot {
	parts := make([]part, 0, len(vouchers)+1)
	lead := `{"items":[`
	for _, v := range vouchers {
		parts = append(parts, part{lead, a.voucherSnapshot(v, now).parts[0].json})
		lead = voucherEnd + ","
	}

	end := strings.TrimSuffix(lead, ",") + `],"next_cursor":`
	var next *string
	if n := len(vouchers); n > 0 {
		next = p.next(n, strconv.FormatInt(vouchers[n-1].ID, 10))
	}

	if next == nil {
		end += `null}`
	} else {
		end += `"` + *next + `"}`
	}

	return newSnapshot(append(parts, part{lead: end})...)
}

// staffList is the JSON form of a page of vouchers for staff.
type staffList struct {
	list[voucherOut]

	// The number of vouchers that match the search in each tab.
	Counts map[domain.SaleTab]int `json:"counts"`
	// Whether there are none but the newest ones, which are listed and counted.
	Complete bool `json:"complete"`
}

var parseTab = oneOf(domain.SaleTabs...)

func (a *api) browseVouchers(c *gin.Context) error {
	q := &query{c: c}
	page := q.page(a.CursorKeys)
	f := domain.StaffFilter{
		Tab:    cmp.Or(word(q, "tab", parseTab, "must be running, upcoming, drafts, ended or all"), domain.TabAll),
		Search: q.text("search"),
		Page:   page.Page,
	}
	if q.err != nil {
		return q.err
	}

	catalog, err := a.Vouchers.Catalog(c.Request.Context())
	if err != nil {
		return err
	}

	vouchers, counts := catalog.Browse(f, domain.Moment(a.Now()))
	out := func(v **domain.Voucher) voucherOut { return a.voucher(*v) }
	return writeJSON(c, http.StatusOK, staffList{
		list:     newList(page, vouchers, out, func(v **domain.Voucher) int64 { return (*v).ID }),
		Counts:   counts,
		Complete: catalog.Complete(),
	})
}

func (a *api) createVoucher(c *gin.Context, claim *domain.Claim) error {
	var in struct {
		domain.VoucherInput
		Status *string `json:"status"`
	}
	if err := bind(c, &in); err != nil {
		return err
	}
	if in.Status != nil && *in.Status != domain.VoucherDraft.String() {
		return domain.Invalid("status", "must be draft, or absent to publish at once")
	}

	in.Draft = in.Status != nil
	v, err := a.Vouchers.Create(c.Request.Context(), claim, caller(c).UserID, in.VoucherInput)
	if err != nil {
		return err
	}

	c.Header("Location", locationOf("vouchers", v.ID))
	return writeJSON(c, http.StatusCreated, a.voucher(&v))
}

func (a *api) changeVoucher(c *gin.Context, id int64) error {
	var in struct {
		domain.VoucherFields
		Status *string `json:"status"`
	}
	if err := bind(c, &in); err != nil {
		return err
	}

	ch := domain.VoucherChange{VoucherFields: in.VoucherFields}
	if in.Status != nil {
		status, ok := domain.ParseVoucherStatus(*in.Status)
		if !ok || status == domain.VoucherDraft {
			return domain.Invalid("status", "must be on, off or expired")
		}
		ch.Status = &status
	}

	v, err := a.Vouchers.Change(c.Request.Context(), caller(c).UserID, id, ch)
	return a.writeChanged(c, v, err)
}

func (a *api) deleteVoucher(c *gin.Context, id int64) error {
	return writeNoContent(c, a.Vouchers.Delete(c.Request.Context(), caller(c).UserID, id))
}

func (a *api) changeRoom(c *gin.Context, claim *domain.Claim, id int64) error {
	var ch domain.RoomChange
	if err := bind(c, &ch); err != nil {
		return err
	}

	v, err := a.Vouchers.ChangeRoom(c.Request.Context(), claim, caller(c).UserID, id, ch)
	return a.writeChanged(c, v, err)
}

func (a *api) changeStock(c *gin.Context, claim *domain.Claim, id int64) error {
	var in struct {
		Delta  *int64  `json:"delta"`
		Reason *string `json:"reason"`
	}
	if err := bind(c, &in); err != nil {
		return err
	}

	switch {
	case in.Delta == nil:
		return domain.Invalid("delta", "is required")
	case in.Reason == nil:
		return domain.Invalid("reason", "is required")
	}

	v, err := a.Vouchers.ChangeStock(c.Request.Context(), claim, caller(c).UserID, id, *in.Delta, *in.Reason)
	return a.writeChanged(c, v, err)
}

func (a *api) checklist(c *gin.Context, id int64) error {
	list, err := a.Vouchers.Checklist(c.Request.Context(), id)
	return writeOK(c, list, err)
}

func (a *api) writeChanged(c *gin.Context, v domain.Voucher, err error) error {
	return writeOK(c, a.voucher(&v), err)
}

func (a *api) publish(c *gin.Context, _ *domain.Claim, id int64) error {
	// Repeating it has no effect, so it needs no claim.
	v, err := a.Vouchers.Publish(c.Request.Context(), adminOf(c), id)
	return a.writeChanged(c, v, err)
}

package domain

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testNow = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

func at(t time.Time) *Time { return &Time{t} }

func set[T any](v T) Nullable[T] { return Nullable[T]{true, &v} }

// validSale returns a valid input. Each test case invalidates one field of it.
func validSale() VoucherInput {
	return VoucherInput{Stock: ptr(int64(10)), VoucherFields: VoucherFields{
		ShopID: ptr(ID(1)), Title: ptr("t"), PayValue: ptr(int64(100)), ActualValue: ptr(int64(200)),
		BeginAt: at(testNow), EndAt: at(testNow.Add(time.Hour)), LimitPerUser: ptr(2),
	}}
}

func TestVoucherInput(t *testing.T) {
	v, err := validSale().Voucher(testNow)
	require.NoError(t, err)
	require.Equal(t, Voucher{
		ShopID: 1, Title: "t", PayValue: 100, ActualValue: 200, Currency: "CNY", Type: VoucherSeckill, Status: VoucherOn,
		CreatedAt: testNow, UpdatedAt: testNow,
		Sale: &Sale{InitialStock: 10, Stock: 10, BeginAt: testNow, EndAt: testNow.Add(time.Hour), LimitPerUser: 2, Entry: DefaultEntry, Segments: 1},
	}, v)
	normal := validSale()
	normal.Stock, normal.BeginAt, normal.EndAt, normal.LimitPerUser = nil, nil, nil, nil
	v, err = normal.Voucher(testNow)
	require.NoError(t, err)
	require.Equal(t, VoucherNormal, v.Type)
	require.Nil(t, v.Sale)
}

// TestTimeOfRequest: RFC 3339 permits small letters.
func TestTimeOfRequest(t *testing.T) {
	for _, text := range []string{"2026-11-11T12:00:00Z", "2026-11-11t12:00:00z", "2026-11-11T20:00:00+08:00", "2026-11-11t20:00:00.000+08:00"} {
		var got Time
		require.NoError(t, json.Unmarshal([]byte(`"`+text+`"`), &got), text)
		require.True(t, got.Equal(time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)), text)
	}
}

func TestInvalidVoucherInputIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*VoucherInput)
		field string
	}{
		"no shop":                {func(in *VoucherInput) { in.ShopID = nil }, "shop_id"},
		"shop 0":                 {func(in *VoucherInput) { in.ShopID = ptr(ID(0)) }, "shop_id"},
		"no title":               {func(in *VoucherInput) { in.Title = nil }, "title"},
		"empty title":            {func(in *VoucherInput) { in.Title = ptr("") }, "title"},
		"title reversed":         {func(in *VoucherInput) { in.Title = ptr("¥\u202e001") }, "title"},
		"rules with an isolate":  {func(in *VoucherInput) { in.Rules = ptr("a\u2066b") }, "rules"},
		"long title":             {func(in *VoucherInput) { in.Title = ptr(strings.Repeat("券", maxTitle+1)) }, "title"},
		"long rules":             {func(in *VoucherInput) { in.Rules = ptr(strings.Repeat("x", maxRules+1)) }, "rules"},
		"no price":               {func(in *VoucherInput) { in.PayValue = nil }, "pay_value"},
		"negative price":         {func(in *VoucherInput) { in.PayValue = ptr(int64(-1)) }, "pay_value"},
		"huge value":             {func(in *VoucherInput) { in.ActualValue = ptr(int64(maxMoney + 1)) }, "actual_value"},
		"negative stock":         {func(in *VoucherInput) { in.Stock = ptr(int64(-1)) }, "stock"},
		"huge stock":             {func(in *VoucherInput) { in.Stock = ptr(int64(MaxStock + 1)) }, "stock"},
		"window without stock":   {func(in *VoucherInput) { in.Stock = nil }, "stock"},
		"stock without begin":    {func(in *VoucherInput) { in.BeginAt = nil }, "begin_at"},
		"stock without end":      {func(in *VoucherInput) { in.EndAt = nil }, "end_at"},
		"ends before it begins":  {func(in *VoucherInput) { in.EndAt = at(testNow.Add(-time.Second)) }, "end_at"},
		"ends when it begins":    {func(in *VoucherInput) { in.EndAt = in.BeginAt }, "end_at"},
		"begins in the year 1":   {func(in *VoucherInput) { in.BeginAt = at(time.Time{}.Add(time.Hour)) }, "begin_at"},
		"ends in the year 12000": {func(in *VoucherInput) { in.EndAt = at(testNow.AddDate(10000, 0, 0)) }, "end_at"},
		"never valid": {func(in *VoucherInput) {
			in.ValidFrom, in.ValidUntil = set(*at(in.EndAt.Add(time.Hour))), set(*at(in.EndAt.Add(time.Hour)))
		}, "valid_until"},
		"expires during the sale": {func(in *VoucherInput) { in.ValidUntil = set(*at(in.EndAt.Add(-time.Millisecond))) }, "valid_until"},
		"limit 0":                 {func(in *VoucherInput) { in.LimitPerUser = ptr(0) }, "limit_per_user"},
		"limit above the column":  {func(in *VoucherInput) { in.LimitPerUser = ptr(128) }, "limit_per_user"},
		"no entry mode":           {func(in *VoucherInput) { in.Entry = &EntryInput{} }, "entry.mode"},
		"unknown entry mode":      {func(in *VoucherInput) { in.Entry = &EntryInput{Mode: "lobby"} }, "entry.mode"},
		"unknown challenge":       {func(in *VoucherInput) { in.Entry = &EntryInput{Mode: "pass", Challenge: ptr("yes")} }, "entry.challenge"},
		"challenge for nothing":   {func(in *VoucherInput) { in.Entry = &EntryInput{Mode: "open", Challenge: ptr("on")} }, "entry.challenge"},
		"rate without a room":     {func(in *VoucherInput) { in.Entry = &EntryInput{Mode: "pass", Rate: ptr(5)} }, "entry.rate"},
		"opens without a room":    {func(in *VoucherInput) { in.Entry = &EntryInput{Mode: "pass", OpensAt: at(testNow)} }, "entry.opens_at"},
		"rate 0":                  {func(in *VoucherInput) { in.Entry = &EntryInput{Mode: "room", Rate: ptr(0)} }, "entry.rate"},
		"huge rate":               {func(in *VoucherInput) { in.Entry = &EntryInput{Mode: "room", Rate: ptr(10_001)} }, "entry.rate"},
		"opens after the start": {func(in *VoucherInput) {
			in.Entry = &EntryInput{Mode: "room", OpensAt: at(in.BeginAt.Add(time.Second))}
		}, "entry.opens_at"},
		"pass without a life":   {func(in *VoucherInput) { in.Entry = &EntryInput{Mode: "pass", PassTTL: ptr(0)} }, "entry.pass_ttl"},
		"pass for a day":        {func(in *VoucherInput) { in.Entry = &EntryInput{Mode: "pass", PassTTL: ptr(86_400)} }, "entry.pass_ttl"},
		"life of no pass":       {func(in *VoucherInput) { in.Entry = &EntryInput{Mode: "open", PassTTL: ptr(10)} }, "entry.pass_ttl"},
		"no time to pay":        {func(in *VoucherInput) { in.PayTimeout = set(0) }, "pay_timeout"},
		"two days to pay":       {func(in *VoucherInput) { in.PayTimeout = set(172_800) }, "pay_timeout"},
		"negative unpaid limit": {func(in *VoucherInput) { in.UnpaidLimit = set(-1) }, "unpaid_limit"},
		"huge unpaid limit":     {func(in *VoucherInput) { in.UnpaidLimit = set(101) }, "unpaid_limit"},
		"no segment":            {func(in *VoucherInput) { in.Segments = ptr(0) }, "segments"},
		"too many segments":     {func(in *VoucherInput) { in.Segments = ptr(17) }, "segments"},
		"only a limit":          {func(in *VoucherInput) { in.Stock, in.BeginAt, in.EndAt = nil, nil, nil }, "stock"},
	} {
		t.Run(name, func(t *testing.T) {
			in := validSale()
			tc.spoil(&in)
			_, err := in.Voucher(testNow)
			var invalid *InvalidError
			require.ErrorAs(t, err, &invalid)
			fields := map[string]bool{}
			for _, f := range invalid.Fields {
				fields[f.Field] = true
			}
			require.True(t, fields[tc.field], "%v", invalid)
		})
	}
}

// Another mode begins with its defaults, except for what only a RoomChange changes, and voids the passes of the old one. While
// the mode stays, what a change does not name stays: an admin with an old form undoes no change of another.
func TestEntryChange(t *testing.T) {
	opens := testNow.Add(-time.Hour)
	open := Entry{Epoch: 3, Paused: true, Message: "soon"}
	pass := Entry{Mode: EntryPass, PassTTL: time.Hour, Rate: 100, Epoch: 3, Paused: true, Message: "soon"}
	room := Entry{Mode: EntryRoom, Challenge: true, PassTTL: time.Minute, Epoch: 3, OpensAt: opens, Rate: 50, Paused: true, Message: "soon"}
	for name, tc := range map[string]struct {
		before Entry
		in     EntryInput
		want   func(e *Entry)
	}{
		"from open to pass": {open, EntryInput{Mode: "pass"}, func(e *Entry) { e.Mode, e.PassTTL, e.Rate = EntryPass, 10*time.Second, 100 }},
		"with settings": {open, EntryInput{Mode: "pass", PassTTL: ptr(3600), Challenge: ptr("on")}, func(e *Entry) {
			*e = pass
			e.Challenge = true
		}},
		"from pass to room": {pass, EntryInput{Mode: "room"}, func(e *Entry) { e.Mode, e.PassTTL, e.Epoch = EntryRoom, 2*time.Minute, 4 }},
		"from pass to a room with settings": {pass, EntryInput{Mode: "room", Rate: ptr(7), OpensAt: at(opens)}, func(e *Entry) {
			e.Mode, e.PassTTL, e.Rate, e.OpensAt, e.Epoch = EntryRoom, 2*time.Minute, 7, opens, 4
		}},
		"from room to open":                   {room, EntryInput{Mode: "open"}, func(e *Entry) { *e = open; e.PassTTL, e.Rate, e.Epoch = 10*time.Second, 100, 4 }},
		"nothing":                             {room, EntryInput{Mode: "room"}, func(*Entry) {}},
		"pass_ttl":                            {room, EntryInput{Mode: "room", PassTTL: ptr(90)}, func(e *Entry) { e.PassTTL = 90 * time.Second }},
		"rate":                                {room, EntryInput{Mode: "room", Rate: ptr(7)}, func(e *Entry) { e.Rate = 7 }},
		"challenge off":                       {room, EntryInput{Mode: "room", Challenge: ptr("off")}, func(e *Entry) { e.Challenge = false }},
		"opens_at, to follow the start again": {room, EntryInput{Mode: "room", OpensAt: at(testNow.Add(-10 * time.Minute))}, func(e *Entry) { e.OpensAt = time.Time{} }},
	} {
		v := Voucher{Title: "t", Sale: &Sale{BeginAt: testNow, EndAt: testNow.Add(time.Hour), Entry: tc.before}}
		want := tc.before
		tc.want(&want)
		require.NoError(t, VoucherChange{VoucherFields: VoucherFields{Entry: &tc.in}}.Apply(&v, testNow), name)
		require.Equal(t, want, v.Sale.Entry, name)
	}

	require.Equal(t, testNow.Add(-10*time.Minute), pass.Opens(testNow))
	require.Equal(t, opens, room.Opens(testNow))
	v := Voucher{Title: "t", Sale: &Sale{BeginAt: testNow, EndAt: testNow.Add(time.Hour), Entry: room}}
	require.ErrorContains(t, VoucherChange{VoucherFields: VoucherFields{BeginAt: at(opens.Add(-time.Minute))}}.Apply(&v, testNow), "opens_at")
	v.Sale = nil
	require.ErrorContains(t, VoucherChange{VoucherFields: VoucherFields{Entry: &EntryInput{Mode: "open"}}}.Apply(&v, testNow), "only for a seckill voucher")
}

// A year with a typing error is refused, and an old sale that has one can still be changed.
func TestSaleBeginsWithinACentury(t *testing.T) {
	const refused = "begin_at: must be at most 100 years ahead"
	latest := testNow.AddDate(100, 0, 0)
	v := Voucher{Title: "t", Sale: &Sale{BeginAt: testNow, EndAt: MaxTime, Entry: DefaultEntry}}
	for begin, want := range map[time.Time]string{latest: "<nil>", latest.Add(time.Millisecond): refused, testNow.AddDate(900, 0, 0): refused} {
		in := validSale()
		in.BeginAt, in.EndAt = at(begin), at(begin.Add(time.Hour))
		_, err := in.Voucher(testNow)
		for _, err := range []error{err, VoucherChange{VoucherFields: VoucherFields{BeginAt: at(begin)}}.Apply(&v, testNow)} {
			require.Equal(t, want, fmt.Sprint(err))
		}
	}
	v.Sale.BeginAt = testNow.AddDate(900, 0, 0)
	require.NoError(t, VoucherChange{VoucherFields: VoucherFields{Title: ptr("u")}}.Apply(&v, testNow))
}

func TestRoomChange(t *testing.T) {
	room := Entry{Mode: EntryRoom, Rate: 5, Epoch: 1}
	e := room
	require.NoError(t, RoomChange{Revoke: true, Paused: ptr(true), Rate: ptr(9), Message: ptr("soon")}.Apply(&e))
	require.Equal(t, Entry{Mode: EntryRoom, Rate: 9, Epoch: 2, Paused: true, Message: "soon"}, e)
	require.Equal(t, `entry_epoch: 1 -> 2; paused: false -> true; rate: 5 -> 9; message: "" -> "soon"`, room.Changes(e))
	for name, ch := range map[string]RoomChange{
		"nothing": {}, "rate 0": {Rate: ptr(0)}, "huge rate": {Rate: ptr(10_001)}, "long message": {Message: ptr(strings.Repeat("x", 256))},
	} {
		before := e
		require.ErrorAs(t, ch.Apply(&e), new(*InvalidError), name)
		require.Equal(t, before, e, name)
	}
	pass, open := Entry{Mode: EntryPass}, Entry{Mode: EntryOpen}
	require.NoError(t, RoomChange{Revoke: true}.Apply(&pass))
	require.ErrorIs(t, RoomChange{Paused: ptr(true)}.Apply(&pass), ErrInvalidState)
	require.ErrorIs(t, RoomChange{Revoke: true}.Apply(&open), ErrInvalidState)
}

func TestVoucherState(t *testing.T) {
	sale := func(stock int64) *Sale { return &Sale{Stock: stock, BeginAt: testNow, EndAt: testNow.Add(time.Hour)} }
	for name, tc := range map[string]struct {
		v    Voucher
		at   time.Duration
		want SaleState
	}{
		"before the start": {Voucher{Status: VoucherOn, Sale: sale(1)}, -1, StateUpcoming},
		"at the start":     {Voucher{Status: VoucherOn, Sale: sale(1)}, 0, StateOnSale},
		"nothing left":     {Voucher{Status: VoucherOn, Sale: sale(0)}, 0, StateSoldOut},
		"before the end":   {Voucher{Status: VoucherOn, Sale: sale(1)}, time.Hour - 1, StateOnSale},
		"at the end":       {Voucher{Status: VoucherOn, Sale: sale(1)}, time.Hour, StateEnded},
		"off":              {Voucher{Status: VoucherOff, Sale: sale(1)}, -1, StateEnded},
		"draft, early":     {Voucher{Status: VoucherDraft, Sale: sale(1)}, -1, StateUpcoming},
		"draft, in window": {Voucher{Status: VoucherDraft, Sale: sale(1)}, 0, StateUpcoming},
		"draft, too late":  {Voucher{Status: VoucherDraft, Sale: sale(1)}, time.Hour, StateEnded},
		"draft, no sale":   {Voucher{Status: VoucherDraft}, 0, StateEnded},
		"normal":           {Voucher{Status: VoucherOn}, 0, StateOnSale},
		"normal, expired":  {Voucher{Status: VoucherExpired}, 0, StateEnded},
	} {
		require.Equal(t, tc.want, tc.v.State(testNow.Add(tc.at)), name)
	}
}

func TestTotalsViolateInvariants(t *testing.T) {
	good := SaleTotals{InitialStock: 10, Additions: 5, Stock: 11, Active: 4}
	require.Empty(t, good.Check())
	for want, spoil := range map[string]func(*SaleTotals){
		"I1 I3": func(b *SaleTotals) { b.Active = 16 },
		"I2":    func(b *SaleTotals) { b.OverLimit = 1 },
		"I2 ":   func(b *SaleTotals) { b.BadSlots = 1 },
		"I3":    func(b *SaleTotals) { b.Stock = 12 },
		"I3 I5": func(b *SaleTotals) { b.Stock = 10 },
	} {
		b := good
		spoil(&b)
		var got []string
		for _, v := range b.Check() {
			got = append(got, v.Invariant)
		}
		require.Equal(t, strings.Fields(want), got)
	}
}

// What a room that has been drawn refuses: a later start and a longer sale without its places, also in two steps, by way
// of another mode. All else stays possible, even in a sale that an earlier release has postponed.
func TestCheckDrawn(t *testing.T) {
	started := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	now := started.Add(30 * time.Minute)
	hours := func(n int) time.Time { return started.Add(time.Duration(n) * time.Hour) }
	sale := func(mode EntryMode, begin, end time.Time) *Sale {
		return &Sale{BeginAt: begin, EndAt: end, Entry: Entry{Mode: mode}}
	}
	drawn := sale(EntryRoom, started, hours(2))
	postponed := sale(EntryRoom, hours(1), hours(2))
	old := sale(EntryRoom, hours(-24*10), hours(-24*8))
	for name, c := range map[string]struct {
		before, after *Sale
		refused       bool
	}{
		"a later start":                     {drawn, sale(EntryRoom, hours(1), hours(2)), true},
		"an earlier start":                  {drawn, sale(EntryRoom, hours(-1), hours(2)), false},
		"a later end":                       {drawn, sale(EntryRoom, started, hours(3)), false},
		"another mode and a later start":    {drawn, sale(EntryOpen, hours(1), hours(2)), false},
		"a room for a later start":          {sale(EntryOpen, hours(1), hours(2)), sale(EntryRoom, hours(1), hours(2)), true},
		"the room again":                    {sale(EntryOpen, started, hours(2)), drawn, false},
		"another end of a postponed sale":   {postponed, sale(EntryRoom, hours(1), hours(3)), false},
		"a postponed sale postponed again":  {postponed, sale(EntryRoom, hours(2), hours(3)), true},
		"a postponed sale begins before":    {postponed, sale(EntryRoom, started, hours(2)), false},
		"a later end without the places":    {old, sale(EntryRoom, old.BeginAt, hours(2)), true},
		"an earlier end without the places": {old, sale(EntryRoom, old.BeginAt, hours(-24*9)), false},
		"another mode without the places":   {old, sale(EntryOpen, old.BeginAt, hours(2)), false},
		"the room again without the places": {sale(EntryOpen, old.BeginAt, hours(2)), sale(EntryRoom, old.BeginAt, hours(2)), true},
	} {
		room := started
		if c.before.BeginAt.Equal(old.BeginAt) {
			room = old.BeginAt
		}
		require.Equal(t, c.refused, CheckDrawn(room, c.before, c.after, now) != nil, name)
	}
}

func TestMaxUnpaid(t *testing.T) {
	for _, tc := range []struct {
		mode  EntryMode
		limit *int
		want  int
	}{
		{EntryOpen, nil, 0}, {EntryPass, nil, 1}, {EntryOpen, ptr(2), 2}, {EntryPass, ptr(3), 3}, {EntryPass, ptr(0), 0},
	} {
		require.Equal(t, tc.want, (&Sale{Entry: Entry{Mode: tc.mode}, UnpaidLimit: tc.limit}).MaxUnpaid(), "%v", tc)
	}
}

// As many orders as the limit may expire. Each cancellation doubles the pause before the next order, up to ten minutes.
func TestMayOrder(t *testing.T) {
	sale := &Sale{UnpaidLimit: ptr(2)}
	require.NoError(t, SaleRecord{Expired: 1}.MayOrder(sale, testNow))
	for _, expired := range []int{2, 3} {
		require.ErrorIs(t, SaleRecord{Expired: expired, Cancelled: 1, LastCancel: testNow}.MayOrder(sale, testNow), ErrUnpaidLimit)
	}
	require.NoError(t, SaleRecord{Expired: 9, Cancelled: 9, LastCancel: testNow}.MayOrder(&Sale{UnpaidLimit: ptr(0)}, testNow))

	for cancelled, pause := range map[int]time.Duration{
		0: 0, 1: 10 * time.Second, 2: 20 * time.Second, 6: 320 * time.Second, 7: 10 * time.Minute, 1000: 10 * time.Minute,
	} {
		r := SaleRecord{Cancelled: cancelled, LastCancel: testNow}
		require.NoError(t, r.MayOrder(sale, testNow.Add(pause)))
		if pause > 0 {
			require.Equal(t, &RateLimitedError{RetryAfter: 1, Reason: fmt.Sprintf("the user has cancelled %d unpaid orders of this sale", cancelled)},
				r.MayOrder(sale, testNow.Add(pause-1)))
		}
	}
}

func TestDistance(t *testing.T) {
	hangzhou, shanghai := Place{120.155, 30.274}, Shop{X: 121.474, Y: 31.230}
	require.InDelta(t, 164_500, shanghai.Distance(hangzhou), 1000)
	require.Zero(t, shanghai.Distance(Place{121.474, 31.230}))
	require.InDelta(t, 20_015_087, (&Shop{X: -60, Y: -30}).Distance(Place{120, 30}), 1, "antipodes")
	require.InDelta(t, 22.2e3, (&Shop{X: 179.9}).Distance(Place{-179.9, 0}), 100, "across the date line")
}

// TestValidityOfSale: what expires with the end of its sale can be sold. A change keeps the validity unless it removes it, and
// cannot move the end of the sale behind it.
func TestValidityOfSale(t *testing.T) {
	in := validSale()
	in.ValidFrom, in.ValidUntil = set(*in.BeginAt), set(*in.EndAt)
	v, err := in.Voucher(testNow)
	require.NoError(t, err)
	require.Equal(t, Validity{&in.BeginAt.Time, &in.EndAt.Time}, v.Validity)

	longer := VoucherChange{VoucherFields: VoucherFields{EndAt: at(in.EndAt.Add(time.Hour))}}
	changed := v
	require.ErrorContains(t, longer.Apply(&changed, testNow), "valid_until")

	before := v
	longer.ValidUntil = Nullable[Time]{Present: true}
	require.NoError(t, longer.Apply(&v, testNow))
	require.Equal(t, Validity{&in.BeginAt.Time, nil}, v.Validity)
	require.Contains(t, before.Changes(&v), "valid_until: 2026-11-11T13:00:00Z -> none")
}

// TestOfferIDHasValidity: offers that differ in their validity are different, and those without keep their ids.
func TestOfferIDHasValidity(t *testing.T) {
	ids := map[OfferID]bool{}
	for _, validity := range []Validity{{}, {&testNow, nil}, {nil, &testNow}, {&testNow, &testNow}} {
		ids[NewOffer(&Voucher{Title: "t", Validity: validity}, "shop").ID] = true
	}
	require.Len(t, ids, 4)
	require.Equal(t, "c6bd1a034c8d7fda38e69794b86ab1a6", fmt.Sprintf("%x", NewOffer(&Voucher{Title: "t"}, "shop").ID))
}

// TestOrderAfterEvent: an event of an earlier move shows the order without the later moves.
func TestOrderAfterEvent(t *testing.T) {
	at := time.Now()
	for _, path := range [][]Move{
		{MovePay, MoveRedeem}, {MovePay, MoveRedeem, MoveUndoRedeem}, {MovePay, MoveRefund, MoveRefunded}, {MoveCancel}, {MoveExpire},
	} {
		o := Order{ID: 1, Status: OrderPendingPayment}
		states, types := []Order{o}, []EventType{EventCreated}
		for _, m := range path {
			m.Apply(&o, at)
			states, types = append(states, o), append(types, m.Event())
		}
		for i, typ := range types {
			if typ == MoveRedeem.Event() && o.RedeemedAt == nil { // the time went with the redemption
				states[i].RedeemedAt = nil
			}
			require.Equal(t, states[i], o.After(typ), "%v after %s", path, typ)
		}
	}
	require.Equal(t, []EventType{"paid", "cancelled", "expired", "redeemed", "refunding", "refunded", "unredeemed"}, []EventType{
		MovePay.Event(), MoveCancel.Event(), MoveExpire.Event(), MoveRedeem.Event(), MoveRefund.Event(), MoveRefunded.Event(), MoveUndoRedeem.Event(),
	})
}

func diagram() string {
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n  [*] --> " + OrderPendingPayment.String() + ": an order is placed\n")
	var ends []string
	for _, m := range Moves() {
		unit := ""
		if m.ReturnsUnit() {
			unit = ", the unit returns"
		}
		b.WriteString("  " + m.From.String() + " --> " + m.To.String() + ": " + m.Name + unit + "\n")
		if end := "  " + m.To.String() + " --> [*]\n"; m.To.Final() && !slices.Contains(ends, end) {
			ends = append(ends, end)
		}
	}
	return b.String() + strings.Join(ends, "") + "```\n"
}

// docs/integration.md contains the diagram of the moves and describes each one.
func TestMovesInDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/integration.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), "<!-- moves: begin -->\n")
	drawn, tail, _ := strings.Cut(rest, "<!-- moves: end -->")
	require.Equal(t, diagram(), drawn)
	for _, m := range Moves() {
		require.Contains(t, tail, "\n| `"+m.Name+"` | ", "the table describes every move")
	}
}

// The invariants require that no move starts from an inactive status and that a unit returns exactly when its order
// becomes inactive.
func TestMovesKeepTheInvariants(t *testing.T) {
	at := time.Unix(1794398400, 0)
	for _, m := range Moves() {
		require.True(t, m.From.Active(), "%s: no move starts from an order that has ended", m.Name)
		require.Equal(t, m != MoveUndoRedeem, m.From.Progress() < m.To.Progress(), "%s: the ids of an order's events grow", m.Name)
		require.Equal(t, !m.To.Active(), m.ReturnsUnit(), m.Name)

		o := Order{Status: m.From, Slot: 3, PaidAt: &at, RedeemedAt: &at}
		m.Apply(&o, at)
		require.Equal(t, m.To, o.Status)
		require.Equal(t, m.To.Active(), o.Slot != 0, m.Name)
	}
}

package app

import (
	"time"

	"seckill/internal/domain"
	"seckill/internal/shop"
)

// demoDuration is the length of the running sale, which stays open for a visitor who returns a week later.
const demoDuration = 30 * 24 * time.Hour

// demoData returns the shops and vouchers of a new demo database. At now, one sale is running, one is upcoming and one
// has ended. The ShopID of a voucher is the position of its shop in the list, from 1.
func demoData(now time.Time) ([]shop.Shop, []domain.Voucher) {
	now = domain.Moment(now)
	shops := []shop.Shop{
		{
			ID: 1, Name: "桂花茶餐厅", TypeID: 1, Area: "大关", Address: "金华路 29 号", X: 120.149192, Y: 30.316078,
			AvgPrice: 8000, Sold: 4215, Comments: 3035, Score: 47, OpenHours: "10:00-22:00", CreatedAt: now, UpdatedAt: now,
		},
		{
			ID: 2, Name: "Riverside Hot Pot", TypeID: 1, Area: "拱宸桥", Address: "Lishui Road 66", X: 120.151505, Y: 30.333422,
			AvgPrice: 6500, Sold: 2160, Comments: 1460, Score: 46, OpenHours: "11:30-23:00", CreatedAt: now, UpdatedAt: now,
		},
	}
	sale := func(shop int64, title, sub, rules string, pay, worth, stock int64, begin, end time.Duration) domain.Voucher {
		return domain.Voucher{
			ShopID: shop, Title: title, SubTitle: sub, Rules: rules,
			PayValue: pay, ActualValue: worth, Currency: domain.DefaultCurrency, Type: domain.VoucherSeckill, Status: domain.VoucherOn, CreatedAt: now, UpdatedAt: now,
			Sale: &domain.Sale{InitialStock: stock, Stock: stock, BeginAt: now.Add(begin), EndAt: now.Add(end), LimitPerUser: 1},
		}
	}
	const rules = "One per person. Redeem within the opening hours."
	return shops, []domain.Voucher{
		{
			ShopID: 1, Title: "50 元代金券", SubTitle: "周一至周五可用", Rules: "全场通用，不找零。",
			PayValue: 4750, ActualValue: 5000, Currency: domain.DefaultCurrency, Type: domain.VoucherNormal, Status: domain.VoucherOn, CreatedAt: now, UpdatedAt: now,
		},
		sale(1, "100 元秒杀券", "桂花茶餐厅", "每人限购一张，营业时间内使用。", 8000, 10000, 100, -time.Hour, demoDuration),
		sale(2, "Dinner for two", "Riverside Hot Pot", rules, 9900, 19800, 50, time.Hour, demoDuration),
		sale(2, "Lunch for two", "Riverside Hot Pot", rules, 4900, 9800, 20, -48*time.Hour, -24*time.Hour),
	}
}

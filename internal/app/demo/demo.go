// Package demo has what a server in demo mode offers at its first start: accounts, shops with pictures, and sales that
// are open or about to begin whenever a visitor comes.
package demo

import (
	"embed"
	"fmt"
	"slices"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/picture"
)

// Account is a phone number that the login dialog of a demo offers.
type Account struct {
	Role  domain.Role
	Phone string
}

// accounts are numbers of country. The admin is configured.
var accounts = []Account{
	{domain.RoleBuyer, "13800000001"}, {domain.RoleViewer, "13800000011"},
	{domain.RoleRedeemer, "13800000012"}, {domain.RoleOperator, "13800000013"},
}

// country is the one of the accounts.
const country = "CN"

// Accounts returns an account per role that can log in to a server for these countries.
func Accounts(admin string, countries []string) []Account {
	var all []Account
	if slices.Contains(countries, country) {
		all = append(all, accounts...)
	}
	return append(all, Account{domain.RoleAdmin, admin})
}

// Roles returns the roles of the accounts by phone, except that of the admin.
func Roles() map[string]domain.Role {
	roles := map[string]domain.Role{}
	for _, a := range accounts {
		roles[a.Phone] = a.Role
	}
	return roles
}

//go:embed pictures/*.jpg
var pictures embed.FS

// The titles of the sales that Renewal keeps going. A sale with another title is not one of them, even if it was.
const (
	dimSum   = "Dim sum for two"
	dimSumZH = "双人早茶"
	hotPot   = "Hot pot for two"
	hotPotZH = "双人火锅"

	// Of demos that an earlier release has set up, in both languages.
	dimSumBoth = dimSumZH + " · " + dimSum
	hotPotBoth = hotPotZH + " · " + hotPot
)

func isRenewed(title string) bool {
	return slices.Contains([]string{dimSum, dimSumZH, dimSumBoth, hotPot, hotPotZH, hotPotBoth}, title)
}

const (
	// window is the duration of these sales. One begins when the other ends.
	window = 2 * time.Hour
	// period is the time between two windows of a sale.
	period = 2 * window
)

// Content returns the shops, pictures and vouchers of a new demo. At now, one sale is running, one is upcoming and one has
// ended. The ShopID of a voucher is the position of its shop in the list, from 1. Texts are in the language of the
// user who starts the server, who is the first to see them, and do not mention times.
func Content(now time.Time) ([]domain.Shop, []picture.Picture, []domain.Voucher, error) {
	now = domain.Moment(now)
	shops := []domain.Shop{
		{
			ID:        1,
			Name:      text("Osmanthus Tea House", "桂花茶餐厅"),
			TypeID:    1,
			X:         120.149192,
			Y:         30.316078,
			Area:      text("Daguan", "大关"),
			Address:   text("29 Jinhua Road", "金华路 29 号"),
			AvgPrice:  8000,
			Sold:      4215,
			Comments:  3035,
			Score:     47,
			OpenHours: "10:00-22:00",
			CreatedAt: now,
			UpdatedAt: now,
		},
		{
			ID:        2,
			Name:      text("Riverside Hot Pot", "江畔火锅"),
			TypeID:    1,
			X:         120.151505,
			Y:         30.333422,
			Area:      text("Gongchen Bridge", "拱宸桥"),
			Address:   text("66 Lishui Road", "丽水路 66 号"),
			AvgPrice:  6500,
			Sold:      2160,
			Comments:  1460,
			Score:     46,
			OpenHours: "11:30-23:00",
			CreatedAt: now,
			UpdatedAt: now,
		},
	}

	var images []picture.Picture
	for _, name := range []string{"tea", "dim-sum", "hot-pot"} {
		file, err := pictures.ReadFile("pictures/" + name + ".jpg")
		if err != nil {
			return nil, nil, nil, err
		}

		p, err := picture.Converted(file, now)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("picture %s: %w", name, err)
		}

		images = append(images, p)
	}

	tea := images[0].ID
	steamer := images[1].ID
	pot := images[2].ID

	voucher := func(shop int64, image, title, sub, rules string, price, value int64) domain.Voucher {
		return domain.Voucher{
			ShopID:      shop,
			Title:       title,
			SubTitle:    sub,
			Rules:       rules,
			ImageID:     image,
			PayValue:    price,
			ActualValue: value,
			Currency:    domain.DefaultCurrency,
			Type:        domain.VoucherNormal,
			Status:      domain.VoucherOn,
			CreatedAt:   now,
			UpdatedAt:   now,
		}
	}

	sale := func(v domain.Voucher, stock int64, begin, end time.Duration) domain.Voucher {
		v.Type = domain.VoucherSeckill

		v.Sale = &domain.Sale{
			InitialStock: stock,
			Stock:        stock,
			BeginAt:      now.Add(begin),
			EndAt:        now.Add(end),
			LimitPerUser: 1,
		}

		return v
	}

	daily := text("Valid on any day", "任意一天可用")
	rules := text("One per person. Show the code in the shop within its opening hours.", "每人限购一份，营业时间内到店出示核销码。")
	menu := text("For the whole menu", "全场通用")

	ended := sale(voucher(1, tea, text("Afternoon tea for two", "双人下午茶"), daily, rules, 4900, 9800), 20, -2*24*time.Hour, -24*time.Hour)

	// The doctor reports sales that were over when they were published.
	ended.CreatedAt = ended.Sale.BeginAt

	return shops, images, []domain.Voucher{
		voucher(1, tea, text("¥50 voucher", "50 元代金券"), menu, text("No change is given.", "不找零。"), 4750, 5000),
		sale(voucher(1, steamer, text(dimSum, dimSumZH), daily, rules, 8000, 16000), 100, -window/2, window/2),
		sale(voucher(2, pot, text(hotPot, hotPotZH), daily, rules, 9900, 19800), 50, window/2, window/2+window),
		ended,
	}, nil
}

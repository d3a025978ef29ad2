package app

import (
	"cmp"
	"embed"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/picture"
	"seckill/internal/web"
)

// demoRoles are the roles by phone in demo mode, of numbers of demoCountry. The admin is configured.
var demoRoles = map[string]domain.Role{
	"13800000001": domain.RoleBuyer,
	"13800000011": domain.RoleViewer,
	"13800000012": domain.RoleRedeemer,
	"13800000013": domain.RoleOperator,
}

const demoCountry = "CN"

// demoAccounts returns an account per role that can log in to a server for these countries. The login dialog offers them.
func demoAccounts(admin string, countries []string) []web.Account {
	var all []web.Account
	if slices.Contains(countries, demoCountry) {
		for _, phone := range slices.Sorted(maps.Keys(demoRoles)) {
			all = append(all, web.Account{Role: string(demoRoles[phone]), Phone: phone})
		}
	}
	return append(all, web.Account{Role: string(domain.RoleAdmin), Phone: admin})
}

//go:embed demo_pictures/*.jpg
var demoPictures embed.FS

// The sales that renewDemo keeps going. A sale with another title is not one of them, even if it was.
const (
	dimSumID = 2
	dimSum   = "Dim sum for two"
	dimSumZH = "双人早茶"
	hotPotID = 3
	hotPot   = "Hot pot for two"
	hotPotZH = "双人火锅"
)

func isRenewed(title string) bool {
	return slices.Contains([]string{dimSum, dimSumZH, hotPot, hotPotZH}, title)
}

const (
	// demoWindow is the duration of these sales. One begins when the other ends.
	demoWindow = 2 * time.Hour
	// demoPeriod is the time between two windows of a sale.
	demoPeriod = 2 * demoWindow
)

// demoContent returns the shops, pictures and vouchers of a new demo. At now, one sale is running, one is upcoming and one has
// ended. The texts are in the language of the environment, and contain no time of day.
func demoContent(now time.Time) ([]domain.Shop, []picture.Picture, []domain.Voucher, error) {
	now = domain.Moment(now)
	shops := []domain.Shop{
		{
			ID:        1,
			Name:      translated("Osmanthus Tea House", "桂花茶餐厅"),
			TypeID:    1,
			X:         120.149192,
			Y:         30.316078,
			Area:      translated("Daguan", "大关"),
			Address:   translated("29 Jinhua Road", "金华路 29 号"),
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
			Name:      translated("Riverside Hot Pot", "江畔火锅"),
			TypeID:    1,
			X:         120.151505,
			Y:         30.333422,
			Area:      translated("Gongchen Bridge", "拱宸桥"),
			Address:   translated("66 Lishui Road", "丽水路 66 号"),
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
		file, err := demoPictures.ReadFile("demo_pictures/" + name + ".jpg")
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

	voucher := func(id, shop int64, image, title, sub, rules string, price, value int64) domain.Voucher {
		return domain.Voucher{
			ID:          id,
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

	daily := translated("Valid on any day", "任意一天可用")
	rules := translated("One per person. Show the code in the shop within its opening hours.", "每人限购一份，营业时间内到店出示核销码。")
	menu := translated("For the whole menu", "全场通用")

	ended := sale(voucher(4, 1, tea, translated("Afternoon tea for two", "双人下午茶"), daily, rules, 4900, 9800), 20, -2*24*time.Hour, -24*time.Hour)

	// The doctor reports sales that were over when they were published.
	ended.CreatedAt = ended.Sale.BeginAt

	return shops, images, []domain.Voucher{
		voucher(1, 1, tea, translated("¥50 voucher", "50 元代金券"), menu, translated("No change is given.", "不找零。"), 4750, 5000),
		sale(voucher(dimSumID, 1, steamer, translated(dimSum, dimSumZH), daily, rules, 8000, 16000), 100, -demoWindow/2, demoWindow/2),
		sale(voucher(hotPotID, 2, pot, translated(hotPot, hotPotZH), daily, rules, 9900, 19800), 50, demoWindow/2, demoWindow/2+demoWindow),
		ended,
	}, nil
}

// translated returns its argument in the language of the environment: zh if LC_ALL, LC_MESSAGES or LANG, the first that is set, begins with zh, and en
// otherwise.
func translated(en, zh string) string {
	language := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_MESSAGES"), os.Getenv("LANG"))
	if strings.HasPrefix(language, "zh") {
		return zh
	}
	return en
}

// RushTitle returns the title of a load simulation's sale, in the language of the program's environment.
func RushTitle(stock int64) string {
	return fmt.Sprintf(translated("Load simulation of %d units", "模拟抢购 %d 份"), stock)
}

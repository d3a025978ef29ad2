package domain

import (
	"slices"
	"strings"
	"time"
)

// User is an account, identified by its phone number in canonical form (package auth).
type User struct {
	ID        int64     `json:"id,string"`
	Phone     string    `json:"phone"`
	NickName  string    `json:"nick_name"`
	Icon      string    `json:"icon"`
	Role      Role      `json:"role"`
	ShopIDs   ShopIDs   `json:"-" gorm:"serializer:json"`
	CreatedAt time.Time `json:"-"`
	// DeviceGeneration grows when the user logs out everywhere: the devices known before are unknown afterwards.
	DeviceGeneration int64 `json:"-"`
}

// ShopIDs are the shops whose vouchers a redeemer may redeem. Empty: those of all shops.
type ShopIDs []int64

// Check returns an *OtherShopError if an order is of another shop.
func (ids ShopIDs) Check(o *Order) error {
	bought := o.Bought()
	if len(ids) == 0 || slices.Contains(ids, bought.ShopID) {
		return nil
	}
	return &OtherShopError{Name: bought.ShopName}
}

// Admin is a user with a role above buyer.
type Admin struct {
	User User
	// When the second factor was enrolled; zero without one.
	EnrolledAt time.Time
	Factor     []byte // encrypted
}

// MaskPhone hides the middle of a phone number: 138****0001.
func MaskPhone(phone string) string {
	const head, tail = 3, 4
	if len(phone) <= head+tail {
		return strings.Repeat("*", len(phone))
	}
	return phone[:head] + "****" + phone[len(phone)-tail:]
}

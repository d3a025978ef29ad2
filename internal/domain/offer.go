package domain

import (
	"crypto/sha256"
	"fmt"
)

// Offer is what a voucher says to its buyers. It never changes: an order keeps the offer that was bought, whatever becomes
// of the voucher and its shop.
type Offer struct {
	// A hash of the other fields.
	ID       OfferID `json:"-" gorm:"serializer:optional"`
	Title    string  `json:"title"`
	SubTitle string  `json:"sub_title,omitempty"`
	Rules    string  `json:"rules,omitempty"`
	// Value in the shop, in cents of the order's currency.
	ActualValue int64 `json:"-"`
	ShopID      int64 `json:"shop_id,string"`
	// Empty: there is no such shop.
	ShopName string `json:"shop_name"`
	Validity
}

// OfferID is a hash of an offer, so that the same offer has the same id on every server. The zero value stands for an
// unknown one.
type OfferID [16]byte

// NewOffer returns the offer of a voucher.
func NewOffer(v *Voucher, shopName string) *Offer {
	o := &Offer{
		Title:       v.Title,
		SubTitle:    v.SubTitle,
		Rules:       v.Rules,
		ActualValue: v.ActualValue,
		ShopID:      v.ShopID,
		ShopName:    shopName,
		Validity:    v.Validity,
	}

	hash := sha256.New()
	for _, text := range []string{o.Title, o.SubTitle, o.Rules, o.ShopName} {
		fmt.Fprintf(hash, "%d:%s", len(text), text)
	}

	fmt.Fprintf(hash, "%d:%d", o.ActualValue, o.ShopID)
	// Offers without bounds keep the ids of earlier releases.
	if o.ValidFrom != nil {
		fmt.Fprintf(hash, "from:%d", o.ValidFrom.UnixMilli())
	}
	if o.ValidUntil != nil {
		fmt.Fprintf(hash, "until:%d", o.ValidUntil.UnixMilli())
	}

	copy(o.ID[:], hash.Sum(nil))
	return o
}

// Bought returns the offer of an order, which is empty if nothing is known of it.
func (o *Order) Bought() Offer {
	if o.Offer == nil {
		return Offer{}
	}
	return *o.Offer
}

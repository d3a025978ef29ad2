package auth

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/pquerna/otp"

	"seckill/internal/domain"
)

// AdminStore stores roles and second factors. A method is one transaction. Error: ErrUnavailable, besides those given
// below.
type AdminStore interface {
	// Enroll finds or inserts the user with the phone of u, sets their role and shops to those of u, replaces their second factor
	// by the one that seal encrypts for their id, or by none if seal is nil, and ends their sessions. Error: *InvalidError
	// (no such shop).
	Enroll(ctx context.Context, u domain.User, seal func(userID int64) []byte, now time.Time) (domain.User, error)
	// RemoveAdmin sets the role to buyer, deletes the second factor and ends the sessions. Error: ErrNotFound.
	RemoveAdmin(ctx context.Context, phone string, now time.Time) (domain.User, error)
	// Admins returns the users whose stored role is above buyer, or whose phone is one of phones.
	Admins(ctx context.Context, phones []string) ([]domain.Admin, error)
}

// Admins changes the roles of users. It is safe for concurrent use.
type Admins struct {
	Store         AdminStore
	SecondFactors *SecondFactors
	Numbers       *Phones
	// As in Config.AdminPhones.
	Phones []string
	// The name of the shop in authenticator apps; empty: seckill.
	Issuer string
	Now    func() time.Time
}

// maxShops bounds the shops of a redeemer, by the width of their column.
const maxShops = 50

// Enroll gives a role to the user with this phone, who need not have logged in before, and ends their sessions. An empty
// role is admin for a phone of a.Phones, and operator for another. shops are those of a redeemer; nil: all. If the role needs a second factor, Enroll replaces
// the user's and returns the key for their authenticator app; otherwise the key is nil. Errors: *InvalidError,
// ErrUnavailable.
func (a *Admins) Enroll(ctx context.Context, phone string, role domain.Role, shops domain.ShopIDs) (domain.User, *otp.Key, error) {
	phone, _, err := a.Numbers.Parse(phone)
	if err != nil {
		return domain.User{}, nil, err
	}

	configured := slices.Contains(a.Phones, phone)
	switch {
	case role == "" && configured:
		role = domain.RoleAdmin
	case role == "":
		role = domain.RoleOperator
	case configured && role != domain.RoleAdmin:
		return domain.User{}, nil, domain.Invalid("role", "must be admin: the phone is one of SECKILL_ADMIN_PHONES")
	case !role.OnStaff():
		return domain.User{}, nil, domain.Invalid("role", "must be viewer, redeemer, operator or admin")
	case len(shops) > 0 && role != domain.RoleRedeemer:
		return domain.User{}, nil, domain.Invalid("shops", "can be given to the role redeemer only")
	case len(shops) > maxShops:
		return domain.User{}, nil, domain.Invalid("shops", "must be at most %d", maxShops)
	}

	now := domain.Moment(a.Now())
	u := newUser(phone, role, now)
	u.ShopIDs = shops
	if !role.NeedsSecondFactor() {
		u, err = a.Store.Enroll(ctx, u, nil, now)
		return u, nil, err
	}

	key, err := newKey(a.Issuer, phone)
	if err != nil {
		return domain.User{}, nil, err
	}

	u, err = a.Store.Enroll(ctx, u, func(userID int64) []byte {
		return a.SecondFactors.seal(userID, key.Secret())
	}, now)

	return u, key, err
}

// Remove makes the user with this phone a buyer and ends their sessions. Errors: *InvalidError, ErrNotFound,
// ErrUnavailable.
func (a *Admins) Remove(ctx context.Context, phone string) (domain.User, error) {
	phone, err := a.Numbers.Canonical(phone)
	if err != nil {
		return domain.User{}, err
	}
	return a.Store.RemoveAdmin(ctx, phone, domain.Moment(a.Now()))
}

// List returns all users with a role above buyer, with the roles that are in effect.
func (a *Admins) List(ctx context.Context) ([]domain.Admin, error) {
	all, err := a.Store.Admins(ctx, a.Phones)
	for i := range all {
		if slices.Contains(a.Phones, all[i].User.Phone) {
			all[i].User.Role = domain.RoleAdmin
		}
	}
	return all, err
}

func newUser(phone string, role domain.Role, now time.Time) domain.User {
	return domain.User{
		Phone:     phone,
		NickName:  "user_" + strings.ToLower(rand.Text()[:10]),
		Role:      role,
		CreatedAt: now,
	}
}

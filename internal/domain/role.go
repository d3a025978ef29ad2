package domain

import "slices"

// Role is the set of permissions of a user.
type Role string

// The roles. Each has all permissions of a buyer.
const (
	RoleBuyer    Role = "buyer"
	RoleViewer   Role = "viewer"   // reads the console
	RoleRedeemer Role = "redeemer" // redeems codes
	RoleOperator Role = "operator" // runs sales and orders
	RoleAdmin    Role = "admin"    // has every permission
)

// Permission is what a route of the admin API requires.
type Permission string

// The permissions beyond those of a buyer.
const (
	MayRead       Permission = "read"       // sales, orders with masked phone numbers, audit log
	MayRedeem     Permission = "redeem"     // redeem an order by its code
	MayOperate    Permission = "operate"    // change sales and orders
	MaySeePhones  Permission = "phones"     // full phone numbers, and orders by phone number
	MayAdminister Permission = "administer" // repair gates, start load simulations
)

var permissions = map[Role][]Permission{
	RoleViewer:   {MayRead},
	RoleRedeemer: {MayRedeem},
	RoleOperator: {MayRead, MayRedeem, MayOperate, MaySeePhones},
	RoleAdmin:    {MayRead, MayRedeem, MayOperate, MaySeePhones, MayAdminister},
}

// Permissions returns the permissions of the role beyond those of a buyer.
func (r Role) Permissions() []Permission { return permissions[r] }

// May reports whether the role has a permission.
func (r Role) May(p Permission) bool { return slices.Contains(permissions[r], p) }

// OnStaff reports whether the role has any permission beyond those of a buyer.
func (r Role) OnStaff() bool { return len(permissions[r]) > 0 }

// NeedsSecondFactor reports whether the role takes effect only in a session that was opened with a second factor. In
// demo mode none does.
func (r Role) NeedsSecondFactor() bool { return r.OnStaff() && r != RoleViewer }

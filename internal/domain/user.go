package domain

import "time"

// Role is the set of permissions of a user.
type Role string

// The roles. An admin has all permissions of a buyer.
const (
	RoleBuyer Role = "buyer"
	RoleAdmin Role = "admin"
)

// User is an account, identified by its phone number in canonical form (package phone).
type User struct {
	ID        int64
	Phone     string
	NickName  string
	Icon      string
	Role      Role
	CreatedAt time.Time
}

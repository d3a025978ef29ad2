package domain

import (
	"strings"
	"time"
)

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

// MaskPhone hides the middle of a phone number: 138****0001.
func MaskPhone(phone string) string {
	const head, tail = 3, 4
	if len(phone) <= head+tail {
		return strings.Repeat("*", len(phone))
	}
	return phone[:head] + "****" + phone[len(phone)-tail:]
}

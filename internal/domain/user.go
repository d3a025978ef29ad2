package domain

import (
	"strings"
	"time"
)

// User is an account, identified by its phone number in canonical form (package auth).
type User struct {
	ID        int64
	Phone     string
	NickName  string
	Icon      string
	Role      Role
	CreatedAt time.Time
	// DeviceGeneration grows when the user logs out everywhere: the devices known before are unknown afterwards.
	DeviceGeneration int64
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

package domain

import (
	"regexp"
	"strings"
	"time"
)

// User is an account, identified by its phone number.
type User struct {
	ID        int64
	Phone     string
	NickName  string
	Icon      string
	Role      Role
	CreatedAt time.Time
}

// Admin is a user with a role above buyer.
type Admin struct {
	User       User
	EnrolledAt time.Time // of the second factor; zero without one
}

var (
	mainlandPhone = regexp.MustCompile(`^1[3-9][0-9]{9}$`)
	foreignPhone  = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`) // E.164
)

// ParsePhone validates a phone number and returns its canonical form: 11 digits for mainland China (without +86), E.164
// for other countries. Error: *InvalidError.
func ParsePhone(s string) (string, error) {
	local, mainland := strings.CutPrefix(s, "+86")
	if mainlandPhone.MatchString(local) {
		return local, nil
	}
	if !mainland && foreignPhone.MatchString(s) {
		return s, nil
	}
	return "", Invalid("phone", "must be a mobile number such as 13800000001 or +4915112345678")
}

// MaskPhone hides the middle of a phone number: 138****0001.
func MaskPhone(phone string) string {
	const head, tail = 3, 4
	if len(phone) <= head+tail {
		return strings.Repeat("*", len(phone))
	}
	return phone[:head] + "****" + phone[len(phone)-tail:]
}

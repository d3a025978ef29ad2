package service

import (
	"regexp"
	"strings"
	"time"
)

// Role says what a user may do.
type Role string

// The roles. An admin may do everything that a buyer may.
const (
	RoleBuyer Role = "buyer"
	RoleAdmin Role = "admin"
)

// User is a person who logs in with a phone number.
type User struct {
	ID        int64
	Phone     string
	NickName  string
	Icon      string
	Role      Role
	CreatedAt time.Time
}

var (
	mainlandPhone = regexp.MustCompile(`^1[3-9][0-9]{9}$`)
	foreignPhone  = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`) // E.164
)

// ParsePhone checks a phone number and gives it its one form: 11 digits for mainland China (a +86 is dropped),
// E.164 for the rest of the world. Error: *InvalidError.
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

package handler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/time/rate"

	"seckill/internal/auth"
	"seckill/internal/domain"
	"seckill/internal/kit/ratelimit"
)

// staff checks the permissions of the requests to admin routes, and records these requests in the audit log:
//
//   - A change, an export, and a request that may reveal phone numbers, is recorded before it runs, and again with the
//     status of its answer. If it cannot be recorded, it does not run.
//   - Any other read, and a request without the permission, is recorded after its answer. Of equal ones (user, route,
//     target, status) only the first in each minute is, because pages poll. If it cannot be recorded, it is logged.
//   - A stream of events is recorded once, when it is opened.
//   - Alerts, which every page polls and which say nothing about buyers, are recorded only if they are refused.
//
// Requests of buyers are refused and not recorded.
type staff struct {
	*api

	// Allows a record of equal requests in each minute.
	reads *ratelimit.Quota
	// Limits the log of requests that cannot be recorded.
	failed rate.Sometimes
}

// permit returns a middleware for routes that need the permission p. authenticate stores the caller's identity; fail writes
// the answer to an error.
func (s *staff) permit(
	p domain.Permission, authenticate func(*gin.Context) error, fail func(*gin.Context, error),
) gin.HandlerFunc {
	return func(c *gin.Context) {
		role, err := s.confirmRole(c, authenticate)
		if err != nil {
			fail(c, err)
			return
		}

		needed := p

		// A search by phone number.
		if p == domain.MayRead && c.Request.URL.Query().Has("phone") {
			needed = domain.MaySeePhones
		}

		r := s.request(c, caller(c).UserID, role)
		switch {
		case !role.May(needed):
			fail(c, domain.ErrForbidden)
			s.recordRead(c, r)
		case c.Request.Method == http.MethodGet && needed != domain.MaySeePhones && !strings.HasSuffix(c.FullPath(), ".csv"):
			c.Next()
			if c.FullPath() != alertsPath || c.Writer.Status() >= http.StatusBadRequest {
				s.recordRead(c, r)
			}
		default:
			if err := s.Store.RecordRequest(c.Request.Context(), &r); err != nil {
				fail(c, err)
				return
			}
			c.Next()
			s.attempt(c, func(ctx context.Context) error { return s.Store.FinishRequest(ctx, r.ID, c.Writer.Status()) }, r)
		}
	}
}

// reveal answers a request to a public route for what only staff may see, and records it. Others get the error denied, or
// the reason if denied is nil.
func (s *staff) reveal(c *gin.Context, denied error, answer func() error) error {
	role, err := s.confirmRole(c, s.require)
	if err != nil {
		return cmp.Or(denied, err)
	}

	r := s.request(c, caller(c).UserID, role)
	if role.May(domain.MayRead) {
		err = answer()
	} else {
		err = cmp.Or(denied, domain.ErrForbidden)
	}

	// Here, because the record has the status of the answer.
	if err != nil {
		s.errors.write(c, err)
	}

	s.recordRead(c, r)
	return nil
}

// confirmRole returns the caller's present role, which the token may not state yet, and sets it in the caller's identity.
// Errors: ErrForbidden (the caller is a buyer), ErrUnavailable, those of authenticate.
func (s *staff) confirmRole(c *gin.Context, authenticate func(*gin.Context) error) (domain.Role, error) {
	if err := authenticate(c); err != nil {
		return "", err
	}

	id := caller(c)
	if !id.Role.OnStaff() {
		return "", domain.ErrForbidden
	}

	role, err := s.Auth.CurrentRole(c.Request.Context(), id)
	if err != nil {
		return "", err
	}
	if !role.OnStaff() {
		return "", domain.ErrForbidden
	}

	id.Role = role
	c.Set(identityKey, id)
	return role, nil
}

// login records the login of a user with a role above buyer, and a login with a wrong or missing second factor. Missing
// ones do not use up the login code, so only the first of a user in each minute is recorded.
func (s *staff) login(c *gin.Context, u domain.User, err error) {
	r := s.request(c, u.ID, u.Role)

	switch {
	case err == nil && u.Role.OnStaff():
		r.Status = http.StatusOK
	case errors.Is(err, domain.ErrTOTPRequired):
		r.Status = http.StatusUnauthorized
		if !s.first(c, r) {
			return
		}
	case errors.Is(err, domain.ErrWrongTOTP):
		r.Status = http.StatusUnauthorized
	default:
		return
	}

	s.attempt(c, func(ctx context.Context) error { return s.Store.RecordRequest(ctx, &r) }, r)
}

func (s *staff) request(c *gin.Context, user int64, role domain.Role) domain.AdminRequest {
	return domain.AdminRequest{
		At:        domain.Moment(s.Now()),
		UserID:    user,
		Role:      role,
		Method:    c.Request.Method,
		Route:     c.FullPath(),
		Target:    domain.AuditTarget(c.Param("id")),
		RequestID: requestIDOf(c),
		Network:   auth.Network(address(c.Request)),
	}
}

func (s *staff) recordRead(c *gin.Context, r domain.AdminRequest) {
	r.Status = c.Writer.Status()
	if s.first(c, r) {
		s.attempt(c, func(ctx context.Context) error { return s.Store.RecordRequest(ctx, &r) }, r)
	}
}

// auditTimeout bounds a write to the audit log after the answer is known, which the client waits for.
const auditTimeout = 500 * time.Millisecond

func (s *staff) attempt(c *gin.Context, write func(context.Context) error, r domain.AdminRequest) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), auditTimeout)
	defer cancel()
	if err := write(ctx); err != nil {
		s.failed.Do(func() {
			s.Log.Warn("cannot write the audit log", "err", err, "user_id", r.UserID, "role", r.Role, "method", r.Method,
				"route", r.Route, "target", r.Target, "status", c.Writer.Status(), "request_id", r.RequestID)
		})
	}
}

var readRule = ratelimit.NewRule("reads", 1, time.Minute)

func (s *staff) first(c *gin.Context, r domain.AdminRequest) bool {
	key := fmt.Sprintf("%d %s %s %d %s", r.UserID, r.Method, r.Route, r.Status, r.Target)
	return s.reads.Take(c.Request.Context(), ratelimit.Bucket{Rule: readRule, Key: key}) == 0
}

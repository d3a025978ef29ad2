package repo

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/auth"
	"seckill/internal/domain"
)

// sealed stands for an encrypted secret.
func sealed(userID int64) []byte { return []byte("for user " + strconv.FormatInt(userID, 10)) }

// rightCode is the check of a login with the right code, as package auth makes it.
func rightCode(lc *auth.LoginRequest) bool {
	if len(lc.Hash) == 0 {
		return false
	}
	lc.Attempts++
	lc.Hash = nil
	return true
}

func TestSecondFactorIsUsedOnce(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		operator := domain.User{Phone: "1", NickName: "n", Role: domain.RoleOperator, CreatedAt: now}
		enrolled, err := s.Enroll(ctx, operator, sealed, now, now.Add(time.Hour))
		require.NoError(t, err)
		require.Equal(t, domain.RoleOperator, enrolled.Role)
		newcomer := operator
		newcomer.Role = domain.RoleBuyer
		var g auth.Guess
		logIn := func(session string, step int64, refusal error) error {
			_, err := s.OpenSession(ctx, g, newcomer, newSession(session), rightCode, func(u domain.User, f *auth.SecondFactor) (bool, error) {
				require.Equal(t, enrolled, u)
				require.Equal(t, sealed(u.ID), f.Secret)
				f.LastStep = step
				return refusal == nil, refusal
			})
			return err
		}
		attempts := func() (n int) {
			require.NoError(t, s.db.Reader(ctx).Model(&loginRequestRow{}).Where("login_id = ?", g.LoginID).Pluck("attempts", &n).Error)
			return n
		}

		g = sendCode(t, s, "1")
		require.ErrorIs(t, logIn("a", 7, domain.ErrTOTPRequired), domain.ErrTOTPRequired)
		require.Zero(t, attempts())
		require.ErrorIs(t, logIn("a", 7, domain.ErrWrongTOTP), domain.ErrWrongTOTP)
		require.Equal(t, 1, attempts(), "a wrong password counts as a guess")
		failure := errors.New("no key")
		require.ErrorIs(t, logIn("a", 7, failure), failure)
		require.NoError(t, logIn("a", 7, nil), "the code was not used up")
		_, secondFactor, err := s.RotateSession(ctx, auth.Rotation{SessionID: "a", Generation: 1, Now: now, Expires: now.Add(time.Hour)})
		require.NoError(t, err)
		require.True(t, secondFactor)

		g = sendCode(t, s, "1")
		require.ErrorIs(t, logIn("b", 7, nil), domain.ErrWrongTOTP, "the step was used")
		require.NoError(t, logIn("b", 8, nil))
	})
}

func TestEnrollAndRemove(t *testing.T) {
	onEach(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		buyer := domain.User{Phone: "1", NickName: "n", Role: domain.RoleBuyer, CreatedAt: now}
		open := func(session string) {
			g := sendCode(t, s, "1")
			_, err := s.OpenSession(ctx, g, buyer, newSession(session), anyCode, noFactor)
			require.NoError(t, err)
		}
		revoked := func() (ids []string) {
			list, err := s.RevocationsAfter(ctx, 0, now)
			require.NoError(t, err)
			for _, r := range list {
				ids = append(ids, r.SessionID)
			}
			return ids
		}
		open("before")
		admin := buyer
		admin.Role = domain.RoleAdmin
		u, err := s.Enroll(ctx, admin, sealed, now, now.Add(time.Hour))
		require.NoError(t, err)
		require.Equal(t, []string{"before"}, revoked())
		_, err = s.Enroll(ctx, admin, sealed, now.Add(time.Minute), now.Add(time.Hour))
		require.NoError(t, err, "a lost app is replaced")
		open("during")

		configured := domain.User{Phone: "2", NickName: "n", Role: domain.RoleBuyer, CreatedAt: now}
		configured, err = s.OpenSession(ctx, sendCode(t, s, "2"), configured, newSession("other"), anyCode, noFactor)
		require.NoError(t, err)
		viewer, err := s.Enroll(ctx, domain.User{Phone: "3", NickName: "n", Role: domain.RoleViewer, CreatedAt: now}, nil, now, now.Add(time.Hour))
		require.NoError(t, err)
		list, err := s.Admins(ctx, []string{"2", "4"})
		require.NoError(t, err)
		require.Equal(t, []domain.Admin{{User: u, EnrolledAt: now.Add(time.Minute), Factor: sealed(u.ID)}, {User: configured}, {User: viewer}}, list)

		removed, err := s.RemoveAdmin(ctx, "1", now, now.Add(time.Hour))
		require.NoError(t, err)
		require.Equal(t, domain.RoleBuyer, removed.Role)
		require.ElementsMatch(t, []string{"before", "during"}, revoked())
		open("after") // noFactor is called without a factor, too
		list, err = s.Admins(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, []domain.Admin{{User: viewer}}, list)
		_, err = s.RemoveAdmin(ctx, "9", now, now.Add(time.Hour))
		require.ErrorIs(t, err, domain.ErrNotFound)
	})
}

package entry_test

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/sale/entry"
)

var (
	now    = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	oldKey = domain.NewKeyring([]byte("an old secret of at least 32 bytes"))
	newKey = domain.NewKeyring([]byte("a new secret of at least 32 bytes!"))
)

func TestPassIsValidForItsUserSaleAndTime(t *testing.T) {
	passes := entry.NewPasses(oldKey)
	pass := passes.Issue(7, 1, 3, 9, now.Add(10*time.Second))
	require.NoError(t, check(passes, pass, 7, 1, 3, now))
	require.NoError(t, check(passes, pass, 7, 1, 3, now.Add(9999*time.Millisecond)))
	for name, err := range map[string]error{
		"borrowed":      check(passes, pass, 8, 1, 3, now),
		"other sale":    check(passes, pass, 7, 2, 3, now),
		"swapped ids":   check(passes, pass, 1, 7, 3, now),
		"empty":         check(passes, "", 7, 1, 3, now),
		"other secret":  check(entry.NewPasses(domain.Keyring{{ID: oldKey[0].ID, Secret: newKey[0].Secret}}), pass, 7, 1, 3, now),
		"unknown key":   check(entry.NewPasses(newKey), pass, 7, 1, 3, now),
		"not base64url": check(passes, "!"+pass[1:], 7, 1, 3, now),
		"longer":        check(passes, pass+"A", 7, 1, 3, now),
	} {
		require.ErrorIs(t, err, domain.ErrEntryRequired, name)
	}
	require.ErrorIs(t, check(passes, pass, 7, 1, 3, now.Add(10*time.Second)), domain.ErrPassExpired, "expired")
	require.ErrorIs(t, check(passes, pass, 7, 1, 4, now), domain.ErrPassExpired, "revoked")
}

// Every change of a single bit invalidates a pass.
func TestPassCannotBeForged(t *testing.T) {
	passes := entry.NewPasses(oldKey)
	raw, err := base64.RawURLEncoding.DecodeString(passes.Issue(7, 1, 3, 9, now.Add(time.Minute)))
	require.NoError(t, err)
	for i := range raw {
		for bit := range 8 {
			raw[i] ^= 1 << bit
			require.ErrorIs(t, check(passes, base64.RawURLEncoding.EncodeToString(raw), 7, 1, 3, now), domain.ErrEntryRequired, "byte %d, bit %d", i, bit)
			raw[i] ^= 1 << bit
		}
	}
}

// A pass of mode pass names no round, one of a waiting room names its own. A ticket is no pass, and a pass no ticket.
func TestPassNamesItsRound(t *testing.T) {
	passes := entry.NewPasses(oldKey)
	for _, round := range []uint32{0, 1, 1<<32 - 1} {
		pass := passes.Issue(7, 1, 3, round, now.Add(time.Minute))
		found, err := passes.Check(pass, 7, 1, 3, now)
		require.NoError(t, err)
		require.Equal(t, round, found)
	}
	_, err := entry.NewTickets(oldKey).Number(passes.Issue(7, 1, 3, 9, now.Add(time.Minute)), 7, 1)
	require.ErrorIs(t, err, domain.ErrEntryRequired)
}

// A new key signs while the old one is still accepted.
func TestPassesOfReplacedKey(t *testing.T) {
	old := entry.NewPasses(oldKey).Issue(7, 1, 0, 0, now.Add(time.Minute))
	both := entry.NewPasses(append(newKey, oldKey...))
	require.NoError(t, check(both, old, 7, 1, 0, now))
	sameID := domain.Keyring{{ID: oldKey[0].ID, Secret: newKey[0].Secret}, oldKey[0]}
	require.NoError(t, check(entry.NewPasses(sameID), old, 7, 1, 0, now), "the id in a pass has one byte, so two secrets may share it")
	pass := both.Issue(7, 1, 0, 0, now.Add(time.Minute))
	require.NoError(t, check(entry.NewPasses(newKey), pass, 7, 1, 0, now))
	require.ErrorIs(t, check(entry.NewPasses(oldKey), pass, 7, 1, 0, now), domain.ErrEntryRequired)
}

// check is Check without the round.
func check(passes *entry.Passes, pass string, userID, voucherID int64, epoch uint32, now time.Time) error {
	_, err := passes.Check(pass, userID, voucherID, epoch, now)
	return err
}

func BenchmarkCheck(b *testing.B) {
	passes := entry.NewPasses(oldKey)
	pass := passes.Issue(7, 1, 3, 9, now.Add(time.Minute))
	b.ReportAllocs()
	for b.Loop() {
		if err := check(passes, pass, 7, 1, 3, now); err != nil {
			b.Fatal(err)
		}
	}
}

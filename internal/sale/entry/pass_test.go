package entry_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/sale/entry"
	"seckill/test/env"
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
	raw := env.Must(base64.RawURLEncoding.DecodeString(passes.Issue(7, 1, 3, 9, now.Add(time.Minute))))(t)
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
		found := env.Must(passes.Check(pass, 7, 1, 3, now))(t)
		require.Equal(t, round, found)
		env.Fails(entry.NewTickets(oldKey).Number(pass, 7, 1))(t, domain.ErrEntryRequired)
	}
	env.Fails(passes.Check(entry.NewTickets(oldKey).Issue(7, 1, 3), 7, 1, 3, now))(t, domain.ErrEntryRequired)
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

// shuffledIndex is compute_shuffled_index of Ethereum's consensus specification, written line by line after its text
// and not after entry.LobbyOrder.
func shuffledIndex(index, count uint64, seed [32]byte) uint64 {
	for round := range byte(90) {
		text := append(seed[:], round)
		head := sha256.Sum256(text)
		pivot := binary.LittleEndian.Uint64(head[:8]) % count
		flip := (pivot + count - index) % count
		position := max(index, flip)
		source := sha256.Sum256(binary.LittleEndian.AppendUint32(text, uint32(position/256)))
		if source[position%256/8]>>(position%8)%2 == 1 {
			index = flip
		}
	}
	return index
}

// The position of each number is compute_shuffled_index, in sizes around the blocks of 256 and beyond 2^16.
func TestLobbyOrderIsComputeShuffledIndex(t *testing.T) {
	sizes := []uint32{255, 256, 257, 513, 70_001}
	for size := range uint32(40) {
		sizes = append(sizes, size)
	}
	for _, size := range sizes {
		seed := sha256.Sum256(binary.LittleEndian.AppendUint32(nil, size))
		order := entry.LobbyOrder(seed, size)
		require.Len(t, order, int(size))
		for number := uint64(0); number < uint64(size); number += 1 + uint64(size)/300 {
			position := shuffledIndex(number, uint64(size), seed)
			require.Equal(t, number, uint64(order[position]), "number %d of %d", number, size)
			require.Equal(t, position, uint64(entry.LobbyPosition(seed, size, uint32(number))), "number %d of %d", number, size)
		}
	}
}

// The position of one number needs neither the memory nor the time of the whole order.
func TestLobbyPositionInLargeLobbies(t *testing.T) {
	for _, size := range []uint32{1 << 31, 1<<31 + 1, math.MaxUint32} {
		seed := sha256.Sum256(binary.LittleEndian.AppendUint32(nil, size))
		for _, number := range []uint32{0, 1, 255, 1 << 30, size - 1} {
			position := shuffledIndex(uint64(number), uint64(size), seed)
			require.Equal(t, position, uint64(entry.LobbyPosition(seed, size, number)), "number %d of %d", number, size)
		}
	}
}

// The vectors are tests/mainnet/phase0/shuffling/core/shuffle/shuffle_<seed>_<count>/mapping.yaml of
// github.com/ethereum/consensus-spec-tests: element n is compute_shuffled_index(n).
func TestLobbyOrderOfEthereum(t *testing.T) {
	for text, mapping := range map[string][]uint32{
		"01b4f6bd5d6a06a7b74a8565ceb4f845afe0ae96a0ac05cf5e86066bf7b538ec": {2, 7, 8, 5, 4, 1, 6, 0, 9, 3},
		"0623ccb9b1619bd388284a438034d8cb6431964ba727d8b1c450303105735488": {
			14, 26, 30, 32, 21, 5, 19, 31, 0, 17, 11, 18, 7, 3, 4, 29, 6, 13, 16, 15, 2, 22, 25, 12, 23, 24, 27, 10, 8, 1, 28, 20, 9,
		},
	} {
		seed := env.Must(hex.DecodeString(text))(t)
		order := entry.LobbyOrder([32]byte(seed), uint32(len(mapping)))
		for number, position := range mapping {
			require.Equal(t, uint32(number), order[position])
			require.Equal(t, position, entry.LobbyPosition([32]byte(seed), uint32(len(mapping)), uint32(number)))
		}
	}
}

// checkedRoom returns a room with a lobby of six, in the order of the seed, and later arrivals.
func checkedRoom(events ...domain.RoomEvent) *domain.Room {
	for i := range events {
		if events[i].Seq == 0 {
			events[i].Seq = uint32(i) + 1
		}
	}
	return &domain.Room{VoucherID: 1, Joined: 9, Size: 6, Seed: [32]byte{7}, StartedAt: now, Events: events}
}

func admitted(numbers ...uint32) domain.RoomEvent {
	return domain.RoomEvent{Kind: domain.RoomAdmitted, Numbers: numbers}
}

func left(numbers ...uint32) domain.RoomEvent {
	return domain.RoomEvent{Kind: domain.RoomLeft, Numbers: numbers}
}

func TestCheckRoom(t *testing.T) {
	o := entry.LobbyOrder([32]byte{7}, 6)
	c := entry.CheckRoom(checkedRoom(left(o[5]), admitted(o[0], o[2]), left(o[0]), admitted(o[1], o[4], 6), admitted(o[3], 8)))
	require.Equal(t, entry.RoomCheck{Admitted: 7, Left: 2, Later: 2}, c, "the second and the fourth were absent at first")
	behind := domain.RoomEvent{Kind: domain.RoomBehind, Numbers: []uint32{7}}
	c = entry.CheckRoom(checkedRoom(admitted(o...), behind, admitted(8, 7)))
	require.Equal(t, entry.RoomCheck{Admitted: 8}, c, "a buyer that had a pass before waits behind the others")
	early := checkedRoom(admitted(0))
	early.StartedAt, early.Size = time.Time{}, 0
	gap := admitted(o[2])
	gap.Seq = 3
	for fault, room := range map[string]*domain.Room{
		"event 1: buyers are admitted before the start":    early,
		"event 1: buyers are not in the order of the line": checkedRoom(admitted(o[1], o[0])),
		"event 2: number 8 is admitted again":              checkedRoom(admitted(o[0], 8), admitted(8)),
		"event 1: number 9 does not exist":                 checkedRoom(admitted(9)),
		"event 2: number 7 has left before":                checkedRoom(left(7), admitted(7)),
		"event 2: buyers are not in the order of the line": checkedRoom(behind, admitted(7, 8)),
		"event 3: sequence number 2 is missing":            checkedRoom(admitted(o[0]), gap),
	} {
		require.Equal(t, []string{fault}, entry.CheckRoom(room).Faults)
	}
	require.Len(t, entry.CheckRoom(checkedRoom(left(7), left(7))).Faults, 1, "left twice")
	require.Len(t, entry.CheckRoom(checkedRoom(admitted(o[0], o[0]))).Faults, 1, "twice in one event")
}

package entry_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/sale/entry"
)

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
		seed, err := hex.DecodeString(text)
		require.NoError(t, err)
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

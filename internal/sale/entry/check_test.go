package entry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/sale/entry"
)

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

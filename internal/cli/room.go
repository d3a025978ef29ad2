package cli

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"seckill/internal/app"
	"seckill/internal/domain"
	"seckill/internal/sale/entry"
)

type roomCmd struct {
	Verify verifyRoomCmd `cmd:"" help:"Recompute the order of a lobby and check the log of its room, or compute one position from published numbers. Exit code 1: a violation; 2: the check was not possible."`
}

type verifyRoomCmd struct {
	Voucher int64  `xor:"source" required:"" placeholder:"ID" help:"Check the room of this voucher in the database."`
	Seed    string `xor:"source" required:"" placeholder:"HEX" help:"Seed of a lobby. The database is not used."`
	Size    uint32 `and:"lobby" placeholder:"N" help:"Size of the lobby; only with --seed."`
	Number  uint32 `and:"lobby" placeholder:"K" help:"Number of a place, which counts from 0 in the order of arrival; only with --seed."`
}

// Run prints the position of one number, or the state of a room with the faults in its log.
func (v verifyRoomCmd) Run(e *app.Env) error {
	if v.Seed != "" {
		return v.position(e)
	}
	if v.Size > 0 {
		return errors.New("--size and --number belong to --seed; with --voucher the database has the size")
	}

	room, err := v.read(e)
	if err != nil {
		return fmt.Errorf("could not read the room of voucher %d: %w", v.Voucher, err)
	}

	c := entry.CheckRoom(&room)
	if room.StartedAt.IsZero() {
		fmt.Fprintln(e.Out, "not started")
	} else {
		fmt.Fprintf(e.Out, "seed     %s\nsize     %d\nstarted  %s\n", hex.EncodeToString(room.Seed[:]), room.Size, room.StartedAt.Format(time.RFC3339Nano))
	}

	fmt.Fprintf(e.Out, "places   %d\nadmitted %d, of these %d after someone behind them, because they were absent\nleft     %d\nevents   %d\n",
		room.Joined, c.Admitted, c.Later, c.Left, len(room.Events))

	if len(c.Faults) > 0 {
		return &exitError{ExitViolation, fmt.Errorf("%s:\n  %s", domain.Count(len(c.Faults), "violation"), strings.Join(c.Faults, "\n  "))}
	}

	fmt.Fprintln(e.Out, "the log is consistent: nobody was admitted twice, and each admission follows the order of the line")
	return nil
}

func (v verifyRoomCmd) position(e *app.Env) error {
	seed, err := hex.DecodeString(v.Seed)
	if err != nil || len(seed) != len(domain.Room{}.Seed) {
		return errors.New("--seed must be 64 hexadecimal digits")
	}
	if v.Number >= v.Size {
		return errors.New("--seed needs --size and --number, and the number must be less than the size: later arrivals follow the lobby in their order")
	}
	fmt.Fprintf(e.Out, "position %d of %d\n", entry.LobbyPosition([32]byte(seed), v.Size, v.Number)+1, v.Size)
	return nil
}

func (v verifyRoomCmd) read(e *app.Env) (domain.Room, error) {
	store, err := existingStore(e)
	if err != nil {
		return domain.Room{}, err
	}
	defer store.Close()

	var events []domain.RoomEvent
	for after := uint32(0); ; after = events[len(events)-1].Seq {
		rooms, _, err := store.Rooms(e.Ctx, map[int64]domain.RoomCursor{v.Voucher: {Applied: after}})
		if err != nil {
			return domain.Room{}, err
		}
		if len(rooms) == 0 {
			return domain.Room{}, domain.ErrNotFound
		}

		room := rooms[0]
		events = append(events, room.Events...)
		if len(room.Events) == 0 {
			room.Events = events
			return room, nil
		}
	}
}

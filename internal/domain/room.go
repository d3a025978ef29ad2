package domain

import "time"

// PlaceRequest is the wish of a user for a place in a waiting room.
type PlaceRequest struct {
	VoucherID int64
	UserID    int64
	// Lost is the number of an earlier place that is over: its user left, or was admitted and the pass expired. If the
	// user still has this number, a new one replaces it. -1: none.
	Lost int64
}

// RoomPlace is a place in a waiting room. Numbers count from 0 in the order of arrival.
type RoomPlace struct {
	VoucherID int64
	UserID    int64
	Number    uint32
	// Over means that the turn of the place has come, or that its user has left before.
	Over bool
	// Pass means that its pass stands for a unit, unless it has bought.
	Pass bool
	// Bought means that an order with its pass is queued, and perhaps not yet in the database.
	Bought bool
}

// RoomCursor is how far the events of a room have been read.
type RoomCursor struct {
	// The last sequence number that was read.
	Applied uint32
	// The first admission whose purchases are to be counted.
	Round uint32
}

// Room is the stored state of the waiting room of a sale. The numbers below Size are the lobby, the arrivals before
// the start, in an order that the seed decides. Later numbers follow in the order of arrival.
type Room struct {
	VoucherID int64 `gorm:"primaryKey;autoIncrement:false"`
	// The next free number.
	Joined uint32
	// Zero until the start, like Size and Seed.
	StartedAt time.Time `gorm:"serializer:optional"`
	// When a server could last sell; zero until the start.
	Heartbeat time.Time `gorm:"column:heartbeat_at;serializer:optional"`
	Size      uint32
	Seed      [32]byte `gorm:"serializer:optional"`
	// Units left in the database.
	Stock  int64       `gorm:"->"`
	Events []RoomEvent `gorm:"-"`
	// By admission: the orders that were placed with its passes.
	Bought map[uint32]int `gorm:"-"`
}

// RoomOutage is how long a room is without a heartbeat before that counts as an outage, in which no pass expires.
const RoomOutage = 5 * time.Second

// PlaceLife is how long the places of a sale are kept after its end. Seed, size and the log of the room stay, so that the
// draw can be checked.
const PlaceLife = 7 * 24 * time.Hour

// CheckDrawn returns ErrRoomDrawn if the room of a sale, which started at a time, cannot serve the changed sale. A room
// is drawn once: before a later start, and without the places of the earlier buyers, the fastest would be the first.
func CheckDrawn(startedAt time.Time, before, after *Sale, now time.Time) error {
	if after.Entry.Mode != EntryRoom {
		return nil
	}

	reopened := before.Entry.Mode != EntryRoom
	postponed := after.BeginAt.After(startedAt) && (reopened || after.BeginAt.After(before.BeginAt))
	prolonged := reopened || after.EndAt.After(before.EndAt)

	// A sale that was open for longer in another mode may have ended since, for all that is known.
	ended := before.EndAt
	if reopened {
		ended = startedAt
	}

	placesDeleted := prolonged && ended.Add(PlaceLife).Before(now)
	if postponed || placesDeleted {
		return ErrRoomDrawn
	}

	return nil
}

// RoomEventKind is the kind of a RoomEvent.
type RoomEventKind int8

// The kinds of events, with their numbers in the database.
const (
	RoomAdmitted RoomEventKind = 1 // the numbers were admitted
	RoomLeft     RoomEventKind = 2 // the numbers left
	RoomBehind   RoomEventKind = 3 // the numbers wait behind all others: their users had passes and did not buy
	RoomResumed  RoomEventKind = 4 // an outage ended: passes that had not expired are valid for its time longer
)

// RoomEvent is something that happened in a room. The events of a room have the sequence numbers 1, 2, 3 and so on, and
// never change: the state of a room follows from them on every server.
type RoomEvent struct {
	VoucherID int64
	Seq       uint32
	Kind      RoomEventKind
	// By the clock of the database.
	At time.Time
	// The last heartbeat before an outage.
	Since time.Time `gorm:"serializer:optional"`
	// When the passes expire.
	ExpiresAt time.Time `gorm:"serializer:optional"`
	// Present buyers at the admission.
	Present int
	Numbers []uint32 `gorm:"-"`
}

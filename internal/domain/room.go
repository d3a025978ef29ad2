package domain

import "time"

// PlaceRequest is the wish of a user for a place in a waiting room.
type PlaceRequest struct {
	UserID int64
	// Lost is the number of an earlier place that is over: its user left, or was admitted and the pass expired. If the
	// user still has this number, a new one replaces it. -1: none.
	Lost int64
}

// RoomPlace is a place in a waiting room. Numbers count from 0 in the order of arrival.
type RoomPlace struct {
	UserID   int64
	Number   uint32
	Admitted bool // with a pass that is valid
}

// Room is the stored state of the waiting room of a sale. The numbers below Size are the lobby, the arrivals before
// the start, in an order that the seed decides. Later numbers follow in the order of arrival.
type Room struct {
	VoucherID int64
	Joined    uint32    // the next free number
	StartedAt time.Time // zero until the start, like Size and Seed
	Size      uint32
	Seed      [32]byte
	Stock     int64 // units left in the database
	Events    []RoomEvent
}

// RoomEventKind is the kind of a RoomEvent.
type RoomEventKind int8

// The kinds of events, with their numbers in the database.
const (
	RoomAdmitted RoomEventKind = 1 // the numbers were admitted
	RoomLeft     RoomEventKind = 2 // the numbers left
)

// RoomEvent is something that happened in a room. The events of a room have the sequence numbers 1, 2, 3 and so on, and
// never change: the state of a room follows from them on every server.
type RoomEvent struct {
	VoucherID int64
	Seq       uint32
	Kind      RoomEventKind
	At        time.Time // by the clock of the database
	ExpiresAt time.Time // of the passes
	Present   int       // present buyers at the admission
	Numbers   []uint32
}

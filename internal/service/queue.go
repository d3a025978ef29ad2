package service

// Parcel is an entry of the queue: admissions of one voucher that were let in together.
type Parcel struct {
	Entry string // of the stream, as Redis names it
	// Tries is how often its admissions failed for no reason that is known to the sale; this time included, once it
	// has ends.
	Tries      int64
	Admissions []Admission // at least one
	Ends       []End       // after the transaction: one for each admission
}

// End is how an admission ended. At most one field is set; none: its order is committed.
type End struct {
	Failed string // there will be no order: why, as an error code of the API
	Dead   string // an operator must decide: why, in his words
	Again  bool   // not at all yet: it goes back into the queue, in a parcel of its own
}

package domain

// StreamEntry is an entry of the queue: admissions of one voucher that were reserved together.
type StreamEntry struct {
	Stream string // the key of its stream; empty means that of the voucher's first segment
	Entry  string // its id in the stream
	// Tries counts the failed attempts to commit the admissions, refusals by the rules of the sale excluded. Once Ends
	// is set, it includes the current attempt.
	Tries      int64
	Admissions []Admission // at least one
	Ends       []End       // one per admission, set after the transaction
}

// End is the result of an attempt to commit an admission. At most one field is set. If none is, the order is committed.
type End struct {
	Failed string // no order was placed: the reason, as an error code of the API
	Dead   string // the admission is dead-lettered: the reason, for an operator
	Again  bool   // the admission is retried, in a stream entry of its own
}

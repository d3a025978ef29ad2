package service

// Settled is an admission whose transaction has ended.
type Settled struct {
	Entry     string // of the stream, as Redis names it
	Admission Admission
	Failed    string // why there is no order, as an error code of the API; empty: the order is committed
}

// Dead is an entry of a stream that cannot be turned into an order, nor be refused for a reason that the buyer is
// to blame for.
type Dead struct {
	Stream    string
	Entry     string
	Admission *Admission // nil if the entry could not be read
	Reason    string
	Tries     int64
}

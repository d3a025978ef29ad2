package entry

import (
	"crypto/sha256"
	"encoding/binary"
)

// shuffleRounds is the number of rounds of the swap-or-not shuffle, as in Ethereum.
const shuffleRounds = 90

// LobbyOrder returns the order in which a seed puts a lobby: the number that is first, the number that is second, and
// so on. It is the swap-or-not shuffle of Hoang, Morris and Rogaway (2012) with SHA-256, in the form of
// compute_shuffled_index of the consensus specification of Ethereum
// (https://ethereum.github.io/consensus-specs/specs/phase0/beacon-chain/#compute_shuffled_index): number n is at
// position compute_shuffled_index(n, size, seed). Every order is about equally likely for a random seed, and whoever
// knows seed and size can recompute it. A million numbers take about half a second.
func LobbyOrder(seed [32]byte, size uint32) []uint32 {
	order := make([]uint32, size)
	for i := range order {
		order[i] = uint32(i) //nolint:gosec // less than size
	}

	if size < 2 {
		return order
	}

	// The block has the seed, the round, and a quarter of a word of the index.
	var block [37]byte
	copy(block[:], seed[:])

	for round := range byte(shuffleRounds) {
		block[32] = round
		head := sha256.Sum256(block[:33])
		pivot := uint32(binary.LittleEndian.Uint64(head[:]) % uint64(size)) //nolint:gosec // less than size

		// The index i changes places with pivot-i (mod size) if the bit of the greater of both is set. Each pair is met
		// once: from 0 to pivot, and from pivot+1 to the end.
		swap(order, &block, 0, pivot)
		swap(order, &block, pivot+1, size-1)
	}

	return order
}

// LobbyPosition returns the position of a number in LobbyOrder, which it does not compute: it costs the same in a lobby
// of any size. The number must be less than the size.
func LobbyPosition(seed [32]byte, size, number uint32) uint32 {
	position := number
	var block [37]byte
	copy(block[:], seed[:])

	for round := range byte(shuffleRounds) {
		block[32] = round
		head := sha256.Sum256(block[:33])
		pivot := binary.LittleEndian.Uint64(head[:]) % uint64(size)
		partner := uint32((pivot + uint64(size) - uint64(position)) % uint64(size)) //nolint:gosec // less than size

		high := max(position, partner)
		binary.LittleEndian.PutUint32(block[33:], high>>8)
		source := sha256.Sum256(block[:])
		if source[high%256/8]>>(high%8)&1 == 1 {
			position = partner
		}
	}

	return position
}

// swap runs a round between low and high, whose pairs are (low, high), (low+1, high-1) and so on.
func swap(order []uint32, block *[37]byte, low, high uint32) {
	var source [sha256.Size]byte
	for known := uint32(1 << 31); low < high; low, high = low+1, high-1 {
		if of := high >> 8; of != known {
			binary.LittleEndian.PutUint32(block[33:], of)
			source = sha256.Sum256(block[:])
			known = of
		}

		if source[high%256/8]>>(high%8)&1 == 1 {
			order[low], order[high] = order[high], order[low]
		}
	}
}

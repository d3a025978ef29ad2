package handler

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Answers are compressed piece by piece: visitors choose the vouchers of a list, and every answer has the time in it. A
// piece is JSON without the time, so it is compressed once, and a gzip body is joined from compressed pieces and from
// uncompressed blocks (RFC 1951, 3.2.4) with all that stands between them.
//
// A voucher alone compresses badly. A piece is therefore compressed as the continuation of the piece before it, as in one
// stream. Lists with other filters or limits have mostly the same neighbours.

// piece is JSON that answers have in common. The same JSON and the same lead stand before it in all of them. A piece is
// safe for concurrent use.
type piece struct {
	json []byte
	hash [sha256.Size]byte // of json
	// The hash of the piece before; zero if there is none.
	after [sha256.Size]byte

	mu sync.Mutex
	// By the length of the server_time after the piece before, which changes the distance to it.
	deflated map[int][]byte
}

// newPiece returns the first piece of answers with some JSON, which must not change afterwards.
func newPiece(json []byte) *piece { return &piece{json: json, hash: sha256.Sum256(json)} }

func (p *piece) following(before *piece) *piece {
	return &piece{
		json:  p.json,
		hash:  p.hash,
		after: before.hash,
	}
}

// deflateLevel is the lowest one at which the compressor finds what the piece before has in common.
const deflateLevel = 2

// compressible bounds the CPU time that compression takes in this process, by bytes of JSON a second: about a tenth of a
// processor. Pieces beyond it are sent as they are, and compressed for a later request.
var compressible = rate.NewLimiter(4<<20, 4<<20)

var deflaters = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, deflateLevel)
	// Only for an unknown level.
	if err != nil {
		panic(err)
	}
	return w
}}

// deflate returns the piece as compressed blocks and the header of an uncompressed block, or nil if too much has been
// compressed lately. Before is the piece before it, or nil; clock bytes of server_time and lead stand between them.
func (p *piece) deflate(before *piece, clock int, lead string) []byte {
	if before == nil {
		clock = 0
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	if blocks := p.deflated[clock]; blocks != nil {
		return blocks
	}

	var earlier []byte
	if before != nil {
		earlier = append(earlier, before.json...)
		// JSON has no zero bytes, so no match includes the time.
		earlier = append(earlier, make([]byte, clock)...)
		earlier = append(earlier, lead...)
	}

	if !compressible.AllowN(time.Now(), len(earlier)+len(p.json)) {
		return nil
	}

	var out bytes.Buffer
	w := deflaters.Get().(*flate.Writer) //nolint:forcetypeassert // by New
	defer deflaters.Put(w)

	w.Reset(&out)

	// Cannot fail in memory.
	_, _ = w.Write(earlier)
	_ = w.Flush()
	begin := out.Len()
	_, _ = w.Write(p.json)
	_ = w.Flush()

	// Flush ends with an empty uncompressed block. Only its header stays.
	blocks := bytes.Clone(out.Bytes()[begin : out.Len()-len(appendBlock(nil, nil))])

	if p.deflated == nil {
		p.deflated = make(map[int][]byte, 1)
	}

	p.deflated[clock] = blocks
	return blocks
}

const (
	gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
	// These bytes are the header of an uncompressed block, if the block before it ended with a byte.
	storedBlock, lastBlock = 0, 1
	maxBlock               = 1<<16 - 1
)

func (d *snapshot) appendGzip(b []byte, now time.Time) []byte {
	clock := now.AppendFormat(nil, time.RFC3339Nano)

	var (
		before   *piece
		stored   []byte
		checksum uint32
		size     int
	)

	b = append(b, gzipHeader...)
	b = append(b, storedBlock)
	for i, p := range d.parts {
		stored = stored[:0]
		if i > 0 {
			stored = append(stored, clock...)
		}

		stored = append(stored, p.lead...)
		b = appendStored(b, stored)
		checksum = crc32.Update(checksum, crc32.IEEETable, stored)
		size += len(stored)

		if p.piece == nil {
			b = append(b, storedBlock)
			continue
		}

		json := p.piece.json
		if blocks := p.piece.deflate(before, len(clock), p.lead); blocks != nil {
			b = append(b, blocks...)
		} else {
			b = append(b, storedBlock)
			b = appendStored(b, json)
			b = append(b, storedBlock)
		}

		checksum = crc32.Update(checksum, crc32.IEEETable, json)
		size += len(json)
		before = p.piece
	}

	b = appendStored(b, nil)
	b = append(b, lastBlock)
	b = appendStored(b, nil)
	b = binary.LittleEndian.AppendUint32(b, checksum)

	return binary.LittleEndian.AppendUint32(b, uint32(size)) //nolint:gosec // modulo 2^32, by RFC 1952
}

// appendStored appends content as uncompressed blocks. The header of the first one is the end of b.
func appendStored(b, content []byte) []byte {
	for len(content) > maxBlock {
		b = appendBlock(b, content[:maxBlock])
		b = append(b, storedBlock)
		content = content[maxBlock:]
	}
	return appendBlock(b, content)
}

func appendBlock(b, content []byte) []byte {
	n := uint16(len(content)) //nolint:gosec // at most maxBlock
	b = binary.LittleEndian.AppendUint16(b, n)
	b = binary.LittleEndian.AppendUint16(b, ^n)
	return append(b, content...)
}

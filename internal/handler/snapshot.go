package handler

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/maypok86/otter/v2"
)

// A snapshot is an answer that is the same for every caller, encoded once and sent many times. Only server_time differs
// from answer to answer, so the encoded form is cut there.
//
// Snapshots have Cache-Control: no-cache and an ETag over everything but the time, so that caches may keep them and must
// revalidate them. A max-age would save more requests, but would hand out an old time, by which buyers count down.
type snapshot struct {
	pieces [][]byte // of JSON; between two of them comes the time
	size   int
	etag   []string

	mu     sync.Mutex
	packed []byte // gzip of an answer
	length []string
	asOf   time.Time // the server_time in packed
}

const (
	// minPacked is the size from which compression saves a packet.
	minPacked = 1400
	// packedFor is how long a compressed answer is repeated, with its server_time.
	packedFor = 20 * time.Millisecond
	// serverTimeHeader has the server's time in every answer that is a snapshot, and in a 304.
	serverTimeHeader = "X-Server-Time"
)

var (
	noCache   = []string{"no-cache"}
	varyOnZip = []string{"Accept-Encoding"}
	gzipped   = []string{"gzip"}
)

// newSnapshot makes a snapshot of its pieces, which must not change afterwards.
func newSnapshot(pieces ...[]byte) *snapshot {
	d := &snapshot{pieces: pieces}
	hash := sha256.New()
	for _, p := range pieces {
		_, _ = hash.Write(p) // never fails
		d.size += len(p) + len(time.RFC3339Nano)
	}
	d.etag = []string{`W/"` + hex.EncodeToString(hash.Sum(nil)[:12]) + `"`}
	return d
}

// weight approximates the memory of a snapshot in a cache.
func (d *snapshot) weight() uint32 { return uint32(d.size + d.size/4) } //nolint:gosec // far below 2^32

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// write answers with the snapshot as of now, or with 304.
func (d *snapshot) write(c *gin.Context, now time.Time) {
	h := c.Writer.Header()
	h["Etag"], h["Cache-Control"], h["Vary"] = d.etag, noCache, varyOnZip
	h[serverTimeHeader] = []string{now.Format(time.RFC3339Nano)}
	if d.isKnown(c.Request.Header["If-None-Match"]) {
		c.Status(http.StatusNotModified)
		c.Writer.WriteHeaderNow()
		return
	}
	if d.size >= minPacked && takesGzip(c.Request.Header["Accept-Encoding"]) {
		body, length := d.pack(now)
		h["Content-Encoding"], h["Content-Length"] = gzipped, length
		writeBody(c, http.StatusOK, jsonType, body)
		return
	}
	buf := buffers.Get().(*[]byte) //nolint:forcetypeassert // by New
	*buf = d.appendTo((*buf)[:0], now)
	if len(*buf) >= minPacked { // net/http counts short ones by itself
		h["Content-Length"] = []string{strconv.Itoa(len(*buf))}
	}
	writeBody(c, http.StatusOK, jsonType, *buf)
	buffers.Put(buf)
}

// appendTo writes the snapshot as of now.
func (d *snapshot) appendTo(b []byte, now time.Time) []byte {
	for i, p := range d.pieces {
		if i > 0 {
			b = now.AppendFormat(b, time.RFC3339Nano)
		}
		b = append(b, p...)
	}
	return b
}

// pack returns the snapshot compressed, with a time that may be packedFor older than now.
func (d *snapshot) pack(now time.Time) (body []byte, length []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if age := now.Sub(d.asOf); d.packed == nil || age < 0 || age > packedFor {
		var out bytes.Buffer
		zip := zippers.Get().(*gzip.Writer) //nolint:forcetypeassert // by New
		zip.Reset(&out)
		_, _ = zip.Write(d.appendTo(make([]byte, 0, d.size), now)) // into memory
		_ = zip.Close()
		zippers.Put(zip)
		d.packed, d.asOf, d.length = out.Bytes(), now, []string{strconv.Itoa(out.Len())}
	}
	return d.packed, d.length
}

var zippers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// isKnown says whether the caller has this snapshot, by If-None-Match.
func (d *snapshot) isKnown(tags []string) bool {
	for _, list := range tags {
		for tag := range strings.SplitSeq(list, ",") {
			tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
			if tag == "*" || tag == d.etag[0][len("W/"):] {
				return true
			}
		}
	}
	return false
}

// takesGzip says whether an Accept-Encoding allows gzip. A q of zero forbids it.
func takesGzip(headers []string) bool {
	for _, list := range headers {
		for coding := range strings.SplitSeq(list, ",") {
			name, q, _ := strings.Cut(strings.TrimSpace(coding), ";")
			if strings.TrimSpace(name) != "gzip" {
				continue
			}
			_, value, _ := strings.Cut(q, "=")
			return strings.Trim(value, "0. ") != "" || q == ""
		}
	}
	return false
}

// maxSnapshots bounds the memory of a cache of snapshots.
const maxSnapshots = 32 << 20

// snapshots caches one snapshot for each key, together with what it was made of.
type snapshots[K, S comparable] struct {
	cache *otter.Cache[K, made[S]]
}

// made is a snapshot of a source, which it shows as it is in [since, until).
type made[S comparable] struct {
	snap         *snapshot
	source       S
	since, until time.Time
}

func newSnapshots[K, S comparable]() snapshots[K, S] {
	return snapshots[K, S]{otter.Must(&otter.Options[K, made[S]]{
		MaximumWeight: maxSnapshots, Weigher: func(_ K, m made[S]) uint32 { return 200 + m.snap.weight() },
	})}
}

// get returns the snapshot that was made for the key of this source, if it still holds at now.
func (d snapshots[K, S]) get(key K, source S, now time.Time) *snapshot {
	m, ok := d.cache.GetIfPresent(key)
	if !ok || m.source != source || now.Before(m.since) || !now.Before(m.until) {
		return nil
	}
	return m.snap
}

func (d snapshots[K, S]) put(key K, m made[S]) *snapshot {
	d.cache.Set(key, m)
	return m.snap
}

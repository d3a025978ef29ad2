package handler

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/time/rate"

	"seckill/internal/kit/cache"
)

// A snapshot is an answer that is the same for every caller. Only server_time differs between answers, so it stands
// between the parts. A snapshot is safe for concurrent use.
//
// Snapshots have Cache-Control: no-cache and an ETag over everything but the time, so caches may store them and must
// revalidate them. A max-age would save more requests, but caches would return an old server_time, which buyers use for
// the countdown.
type snapshot struct {
	// server_time stands between two of them.
	parts []part
	size  int
	etag  []string

	mu sync.Mutex
	// An answer as gzip.
	compressed []byte
	// The server_time in compressed.
	asOf time.Time
}

// part is a part of an answer: lead and then json, which lists share with the answers for their vouchers.
type part struct {
	lead string
	json []byte
}

const (
	// minCompressed is the size in bytes from which compression saves a packet.
	minCompressed = 1400
	// compressedTTL is how long a compressed answer is reused, including its server_time, and compressedLate is how long beyond
	// the limit of compression: the list of a shop with a hundred vouchers needs three times the limit.
	compressedTTL  = 20 * time.Millisecond
	compressedLate = 200 * time.Millisecond
	// serverTimeHeader holds the server's time in every snapshot answer, 304 included.
	serverTimeHeader = "X-Server-Time"
)

// compressible bounds the CPU time that compression takes in this process, by bytes of JSON a second: about a fiftieth of a
// processor. A list has as many variants as visitors choose, each of which costs a compression. Beyond the limit an answer
// that is not compressed yet is sent as it is. Answers that are in demand are compressed less often, and not crowded out: each of
// their requests tries again, so they get most of what the limit allows.
var compressible = rate.NewLimiter(1<<20, 1<<20)

var (
	noCache   = []string{"no-cache"}
	varyOnZip = []string{"Accept-Encoding"}
	gzipped   = []string{"gzip"}
)

// newSnapshot returns a snapshot of the parts, which must not change afterwards.
func newSnapshot(parts ...part) *snapshot {
	d := &snapshot{parts: parts}
	hash := sha256.New()
	for _, p := range parts {
		d.size += len(p.lead) + len(p.json) + len(time.RFC3339Nano)
		_, _ = io.WriteString(hash, p.lead)
		_, _ = hash.Write(p.json)
	}

	d.etag = []string{`W/"` + hex.EncodeToString(hash.Sum(nil)[:12]) + `"`}
	return d
}

func (d *snapshot) weight() uint32 { return uint32(d.size + d.size/2) } //nolint:gosec // far below 2^32

var buffers = sync.Pool{New: func() any { return new([]byte) }}

func (d *snapshot) write(c *gin.Context, now time.Time) {
	h := c.Writer.Header()
	h["Etag"] = d.etag
	h["Cache-Control"] = noCache
	h["Vary"] = varyOnZip
	h[serverTimeHeader] = []string{now.Format(time.RFC3339Nano)}

	if d.matches(c.Request.Header["If-None-Match"]) {
		c.Status(http.StatusNotModified)
		c.Writer.WriteHeaderNow()
		return
	}

	if d.size >= minCompressed && acceptsGzip(c.Request.Header["Accept-Encoding"]) {
		if body := d.compress(now); body != nil {
			h["Content-Encoding"] = gzipped
			writeBody(c, http.StatusOK, jsonType, body)
			return
		}
	}

	buf := buffers.Get().(*[]byte) //nolint:forcetypeassert // by New
	*buf = d.appendTo((*buf)[:0], now)
	writeBody(c, http.StatusOK, jsonType, *buf)
	buffers.Put(buf)
}

func (d *snapshot) appendTo(b []byte, now time.Time) []byte {
	for i, p := range d.parts {
		if i > 0 {
			b = now.AppendFormat(b, time.RFC3339Nano)
		}

		b = append(b, p.lead...)
		b = append(b, p.json...)
	}

	return b
}

var compressors = sync.Pool{New: func() any {
	// Fails only for an unknown level.
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	return w
}}

// compress returns the snapshot as gzip, with a server_time that is at most compressedLate older than now, or nil if too much
// has been compressed lately.
func (d *snapshot) compress(now time.Time) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()

	age := now.Sub(d.asOf)
	timeless := len(d.parts) == 1
	if d.compressed != nil && (timeless || age >= 0 && age <= compressedTTL) {
		return d.compressed
	}

	if !compressible.AllowN(time.Now(), d.size) {
		if d.compressed != nil && age >= 0 && age <= compressedLate {
			return d.compressed
		}
		return nil
	}

	d.zip(now)
	return d.compressed
}

// zip compresses the snapshot with a server_time. Other calls must not be running.
func (d *snapshot) zip(now time.Time) {
	buf := buffers.Get().(*[]byte) //nolint:forcetypeassert // by New
	defer buffers.Put(buf)
	*buf = d.appendTo((*buf)[:0], now)

	w := compressors.Get().(*gzip.Writer) //nolint:forcetypeassert // by New
	defer compressors.Put(w)
	out := bytes.NewBuffer(make([]byte, 0, d.size/2))
	w.Reset(out)
	// Cannot fail in memory.
	_, _ = w.Write(*buf)
	_ = w.Close()

	d.compressed = out.Bytes()
	d.asOf = now
}

func (d *snapshot) matches(tags []string) bool {
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

func acceptsGzip(headers []string) bool {
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

// maxSnapshots bounds the memory of a cache of snapshots, in bytes.
const maxSnapshots = 32 << 20

// snapshots caches one snapshot per key, together with its source.
type snapshots struct {
	cache *cache.Cache[any, cachedSnapshot]
}

// cachedSnapshot is a snapshot of a source, a pointer, that is valid in [since, until).
type cachedSnapshot struct {
	snap         *snapshot
	source       any
	since, until time.Time
}

func newSnapshots() snapshots {
	return snapshots{cache.New[any](cache.Options[cachedSnapshot]{
		MaxWeight: maxSnapshots, Weight: func(m cachedSnapshot) uint32 { return 200 + m.snap.weight() },
	})}
}

func (d snapshots) get(key, source any, now time.Time) *snapshot {
	m, ok := d.cache.Get(key)
	if !ok || m.source != source || now.Before(m.since) || !now.Before(m.until) {
		return nil
	}
	return m.snap
}

// put caches a snapshot and returns it. If the last one of the key is equal, put keeps that, which may be compressed.
func (d snapshots) put(key any, m cachedSnapshot) *snapshot {
	if old, ok := d.cache.Get(key); ok && old.snap.etag[0] == m.snap.etag[0] {
		m.snap = old.snap
	}
	d.cache.Set(key, m)
	return m.snap
}

// answerTTL is the age up to which a cached answer is used. maxAnswers bounds the answers of a process.
const answerTTL, maxAnswers = time.Second, 1000

func newAnswers() *cache.Cache[any, *snapshot] {
	return cache.New[any](cache.Options[*snapshot]{MaxEntries: maxAnswers, TTL: answerTTL})
}

// writeCached writes an answer that is the same for every caller: that of key, which read returns if it is not cached.
// Concurrent requests share one call of read, which therefore has the deadline of the request that started it, and is not
// cancelled with it.
func (a *api) writeCached(c *gin.Context, key any, read func(context.Context) (any, error)) error {
	snap, cached := a.answers.Get(key)
	if !cached {
		err := a.limits.visit(c)
		if err == nil {
			snap, err = a.answers.Load(c.Request.Context(), key, func(ctx context.Context) (*snapshot, error) {
				deadline, _ := ctx.Deadline()
				ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
				defer cancel()

				answer, err := read(ctx)
				if err != nil {
					return nil, err
				}
				return encodeSnapshot(answer)
			})
		}

		if err != nil {
			return err
		}
	}

	snap.write(c, a.Now())
	return nil
}

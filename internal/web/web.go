// Package web is what people look at: the storefront, embedded in the program. Its pages are plain HTML, CSS and
// JavaScript modules without a build step, and ask no other server for anything.
//
//	static/index.html  the storefront's frame; its paths are in Routes
//	static/shop/       the storefront's modules
//	static/lib/        what any page can use: API client, session, server clock, event streams, texts, elements
//	static/vendor/     libraries of others, with their licences
//
// The modules import each other by relative paths, so all assets of a build are under one folder whose name is a hash
// over all of them, and may be kept for ever.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

//go:embed static
var embedded embed.FS

// contentSecurityPolicy lets the pages use what this server hands out, and nothing inline; the last two lines make the
// browser refuse innerHTML and its kind.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

const (
	forEver = "public, max-age=31536000, immutable"
	askEach = "no-cache" // keep it, and ask whether it has changed
)

// file is a file as it is sent.
type file struct {
	kind          string
	plain, zipped []byte // zipped is nil where it would be no shorter
	tag           string
}

// site is the pages and their assets.
type site struct {
	version string
	index   *file
	assets  map[string]*file // by their path below static
}

// Routes returns the handlers of the pages, for GET and HEAD, by the router's patterns.
func Routes() (map[string]http.Handler, error) {
	s, err := newSite()
	if err != nil {
		return nil, err
	}
	page, assets := http.HandlerFunc(s.page), http.HandlerFunc(s.asset)
	return map[string]http.Handler{"/": page, "/orders": page, "/orders/:id": page, "/assets/:version/*file": assets}, nil
}

// newSite reads, fills in and compresses everything once.
func newSite() (*site, error) {
	root, err := fs.Sub(embedded, "static")
	if err != nil {
		return nil, err
	}
	s := &site{assets: map[string]*file{}}
	var modules []string
	all := sha256.New()
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(all, "%s %d\n%s", name, len(text), text)
		if kind := path.Ext(name); kind == ".js" || kind == ".mjs" {
			modules = append(modules, name)
		}
		s.assets[name], err = newFile(name, text)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.version = hex.EncodeToString(all.Sum(nil)[:8])
	return s, s.fillIn(root, modules)
}

// fillIn makes the page: it names all modules, so that the browser need not discover them one after the other.
func (s *site) fillIn(root fs.FS, modules []string) error {
	t, err := template.ParseFS(root, "index.html")
	if err != nil {
		return err
	}
	in := struct {
		Assets  string
		Modules []string
	}{Assets: "/assets/" + s.version}
	for _, m := range modules {
		in.Modules = append(in.Modules, in.Assets+"/"+m)
	}
	var page bytes.Buffer
	if err := t.Execute(&page, in); err != nil {
		return err
	}
	delete(s.assets, "index.html")
	s.index, err = newFile("index.html", page.Bytes())
	return err
}

// kinds are the media types of our files: the machine's own table may say something else.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".txt": "text/plain; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

func newFile(name string, text []byte) (*file, error) {
	f := &file{kind: kinds[path.Ext(name)], plain: text}
	if f.kind == "" {
		return nil, fmt.Errorf("web: %s: a file of a kind that is not served", name)
	}
	sum := sha256.Sum256(text)
	f.tag = hex.EncodeToString(sum[:8])
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(text); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	if b.Len() < len(text) {
		f.zipped = b.Bytes()
	}
	return f, nil
}

func (s *site) page(w http.ResponseWriter, r *http.Request) { s.index.serve(w, r, askEach) }

// asset serves a file of this build. While servers of two builds are behind one address, a page of one may ask the
// other: it gets what there is, and keeps it for this time only.
func (s *site) asset(w http.ResponseWriter, r *http.Request) {
	version, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/assets/"), "/")
	f := s.assets[name]
	if f == nil {
		http.NotFound(w, r)
		return
	}
	cache := askEach
	if version == s.version {
		cache = forEver
	}
	f.serve(w, r, cache)
}

func (f *file) serve(w http.ResponseWriter, r *http.Request, cache string) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", cache)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Content-Security-Policy", contentSecurityPolicy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	body, tag := f.plain, f.tag
	if f.zipped != nil && takesGzip(r.Header.Get("Accept-Encoding")) {
		body, tag = f.zipped, f.tag+"-gzip" // another representation, another tag
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	h.Set("ETag", strconv.Quote(tag))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// takesGzip reads Accept-Encoding: gzip is named, and not with a weight of 0.
func takesGzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		coding, params, err := mime.ParseMediaType("x/" + strings.TrimSpace(part))
		if err != nil || coding != "x/gzip" {
			continue
		}
		weight, err := strconv.ParseFloat(params["q"], 64)
		return params["q"] == "" || err == nil && weight > 0
	}
	return false
}

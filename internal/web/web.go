// Package web serves the pages of the storefront, the console and the API documentation. They are plain HTML, CSS and
// JavaScript modules, embedded in the program; browsers contact no other server. `go generate` bundles the modules of a page
// into one script, main.bundle.js in the page's folder.
//
//	static/*.html      page templates; pages.go lists the pages and what each loads
//	static/shop/       modules of the storefront
//	static/console/    modules of the console
//	static/lib/        shared modules: API client, session, server clock, event streams, texts, elements
//	static/docs/       frame of Swagger UI, style of the pages without scripts (problems.go)
//	static/vendor/     third-party libraries with their licences
//
// The modules import each other by relative paths. All assets of a build are served below one folder named by a hash of
// all of them, and may therefore be cached for ever.
package web

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:generate go test . -run TestBundlesAreCurrent -update

//go:embed static
var embedded embed.FS

// Values of Cache-Control.
const (
	immutable  = "public, max-age=31536000, immutable"
	revalidate = "no-cache" // stored, and revalidated with the ETag before each use
)

// maxPlain is the size above which a file is sent compressed only, which every browser accepts. A client that reads
// nothing then holds less memory.
const maxPlain = 1 << 20

type file struct {
	kind  string
	plain []byte
	// Compressed at the first call; nil if that is not shorter.
	zipped func() []byte
	// ETag, without quotes.
	tag    string
	policy string // Content-Security-Policy
	// Permissions-Policy; empty: permissions.
	permissions string
}

type site struct {
	cfg Config
	// The folder static.
	root    fs.FS
	version string
	// By router pattern.
	pages map[string]*file
	// The store of the storefront.
	store renderer
	// By path below static.
	assets map[string]*file
}

// Config is what the pages need from the server.
type Config struct {
	Problems []Problem
	// Sale returns the published sale with an id, for the preview of its page. ok is false if there is none. The function
	// must be safe for concurrent use.
	Sale func(ctx context.Context, id int64) (s Sale, ok bool, err error)
	// Offered by the login dialog; none outside demo mode.
	Accounts []Account
	// Whether payments move no money.
	Sandbox bool
	Shop    Shop
}

// Account is a phone number with which a visitor of a demo logs in, and its role.
type Account struct{ Role, Phone string }

// Routes returns the GET and HEAD handlers of all pages and assets by router pattern, including a page for each of the
// problems, and the page for unknown addresses. The handlers are safe for concurrent use, and expect the
// scheme of the browser in the URL of a request. Routes fails if an embedded file is malformed.
func Routes(cfg Config) (map[string]http.Handler, http.Handler, error) {
	s, err := newSite(cfg)
	if err != nil {
		return nil, nil, err
	}

	routes, err := s.problemPages(cfg.Problems)
	if err != nil {
		return nil, nil, err
	}

	missing := s.missingPage()
	routes["/assets/:version/*file"] = http.HandlerFunc(s.asset)
	routes["/sales/:id"] = s.salePage(cfg.Sale, missing)
	for pattern, f := range s.pages {
		routes[pattern] = f
	}

	for pattern, name := range wellKnown {
		routes[pattern] = s.assets[name]
	}

	return routes, missing, nil
}

// wellKnown are the assets that browsers and crawlers request at a fixed path.
var wellKnown = map[string]string{
	"/favicon.ico":          "icon-48.png",
	"/apple-touch-icon.png": "icon-192.png",
	"/robots.txt":           "robots.txt",
	"/manifest.webmanifest": "manifest.webmanifest",
}

// comments of style sheets are for readers of the source, like those of the bundled modules.
var comments = regexp.MustCompile(`(?s)/\*.*?\*/\n?`)

func newSite(cfg Config) (*site, error) {
	root, err := fs.Sub(embedded, "static")
	if err != nil {
		return nil, err
	}

	s := &site{
		cfg:    cfg,
		root:   root,
		pages:  map[string]*file{},
		assets: map[string]*file{},
	}

	all := sha256.New()
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) == ".html" {
			return err
		}

		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}

		if path.Ext(name) == ".css" && !strings.HasPrefix(name, "vendor/") {
			text = comments.ReplaceAll(text, nil)
		}

		f := newFile(name, text, defaultPolicy)
		if f.kind == "" {
			return fmt.Errorf("web: %s: no media type for this extension", name)
		}

		fmt.Fprintln(all, name, f.tag)
		s.assets[name] = f
		return nil
	})
	if err != nil {
		return nil, err
	}

	s.version = hex.EncodeToString(all.Sum(nil)[:8])
	if s.assets["manifest.webmanifest"], err = cfg.Shop.manifest(root); err != nil {
		return nil, err
	}

	for _, p := range pages {
		render, err := s.renderer(p)
		if err != nil {
			return nil, err
		}

		f, err := render(nil)
		if err != nil {
			return nil, err
		}

		if p.main == storefront {
			s.store = render
		}

		for _, pattern := range p.patterns {
			s.pages[pattern] = f
		}
	}

	return s, nil
}

type renderer func(*preview) (*file, error)

func (s *site) renderer(p page) (renderer, error) {
	t, err := template.ParseFS(s.root, appFrame)
	if err != nil {
		return nil, err
	}
	p.policy = s.cfg.Shop.allow(p.policy)

	in := struct {
		Config

		Assets, Home, Main string
		Styles             []string
		Preview            *preview
	}{
		Config: s.cfg,
		Assets: "/assets/" + s.version,
		Home:   p.patterns[0],
		Main:   p.main,
		Styles: p.styles,
	}

	return func(of *preview) (*file, error) {
		in := in
		in.Preview = of
		var text bytes.Buffer
		if err := t.Execute(&text, in); err != nil {
			return nil, err
		}

		f := newFile(appFrame, text.Bytes(), p.policy)
		f.permissions = p.permissions
		return f, nil
	}, nil
}

// kinds are the media types by file extension. The system's own table may differ.
var kinds = map[string]string{
	".html":        "text/html; charset=utf-8",
	".css":         "text/css; charset=utf-8",
	".txt":         "text/plain; charset=utf-8",
	".js":          "text/javascript; charset=utf-8",
	".mjs":         "text/javascript; charset=utf-8",
	".svg":         "image/svg+xml",
	".png":         "image/png",
	".webmanifest": "application/manifest+json",
	// vendor/MANIFEST.
	"": "text/plain; charset=utf-8",
}

func newFile(name string, text []byte, policy string) *file {
	sum := sha256.Sum256(text)

	return &file{
		kind:   kinds[path.Ext(name)],
		plain:  text,
		zipped: sync.OnceValue(func() []byte { return compress(text) }),
		tag:    hex.EncodeToString(sum[:8]),
		policy: policy,
	}
}

func compress(text []byte) []byte {
	var b bytes.Buffer
	// Cannot fail in memory, and the level exists.
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = z.Write(text)
	_ = z.Close()
	if b.Len() >= len(text) {
		return nil
	}
	return b.Bytes()
}

// asset serves a file of this build. During a deployment with two builds behind one address, a page of one build may
// request a file from the other: it receives the version at hand, which must not be cached under that name.
func (s *site) asset(w http.ResponseWriter, r *http.Request) {
	version, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/assets/"), "/")
	f := s.assets[name]
	if f == nil {
		http.NotFound(w, r)
		return
	}

	cache := revalidate
	if version == s.version {
		cache = immutable
	}

	f.serve(w, r, cache)
}

// ServeHTTP serves the file under an address that does not name its version.
func (f *file) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.serve(w, r, revalidate) }

func (f *file) serve(w http.ResponseWriter, r *http.Request, cache string) {
	h := w.Header()
	f.head(h)
	h.Set("Cache-Control", cache)
	h.Add("Vary", "Accept-Encoding")
	body := f.plain
	tag := f.tag

	if len(body) > maxPlain || acceptsGzip(r.Header.Get("Accept-Encoding")) {
		if zipped := f.zipped(); zipped != nil {
			// Each encoding has its own ETag.
			body = zipped
			tag = f.tag + "-gzip"
			h.Set("Content-Encoding", "gzip")
			h.Set("Content-Length", strconv.Itoa(len(body)))
		}
	}

	h.Set("ETag", strconv.Quote(tag))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

func (f *file) head(h http.Header) {
	h.Set("Content-Type", f.kind)
	h.Set("Content-Security-Policy", f.policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", cmp.Or(f.permissions, permissions))
}

func acceptsGzip(accept string) bool {
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

// Package web is what people look at, embedded in the program: plain HTML, CSS and JavaScript modules without a build
// step, which ask no other server for anything.
//
//	static/*.html      the frames of the pages; pages.go says which is where, and what it loads
//	static/shop/       the storefront's modules
//	static/console/    those of the console
//	static/lib/        what any page can use: API client, session, server clock, event streams, texts, elements
//	static/docs/       what stands around Swagger UI, and the style of the pages that explain problems (problems.go)
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
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed static
var embedded embed.FS

const (
	forEver = "public, max-age=31536000, immutable"
	askEach = "no-cache" // keep it, and ask whether it has changed
)

// file is a file as it is sent.
type file struct {
	kind   string
	plain  []byte
	zipped func() []byte // nil where it would be no shorter; made when it is first asked for
	tag    string
	policy string // Content-Security-Policy
}

// site is the pages and their assets.
type site struct {
	version string
	pages   map[string]*file // by the router's patterns
	assets  map[string]*file // by their path below static
}

// Routes returns the handlers of the pages, for GET and HEAD, by the router's patterns. Each of the problems has one.
func Routes(problems []Problem) (map[string]http.Handler, error) {
	s, err := newSite()
	if err != nil {
		return nil, err
	}
	root, err := fs.Sub(embedded, "static")
	if err != nil {
		return nil, err
	}
	routes, err := s.problemPages(root, problems)
	if err != nil {
		return nil, err
	}
	routes["/assets/:version/*file"] = http.HandlerFunc(s.asset)
	for pattern, f := range s.pages {
		routes[pattern] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serve(w, r, askEach) })
	}
	return routes, nil
}

// newSite reads and fills in everything once.
func newSite() (*site, error) {
	root, err := fs.Sub(embedded, "static")
	if err != nil {
		return nil, err
	}
	s := &site{pages: map[string]*file{}, assets: map[string]*file{}}
	var modules []string
	all := sha256.New()
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) == ".html" {
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
		s.assets[name], err = newFile(name, text, defaultPolicy)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.version = hex.EncodeToString(all.Sum(nil)[:8])
	for _, p := range pages {
		f, err := s.fillIn(root, p, modules)
		if err != nil {
			return nil, err
		}
		for _, pattern := range p.patterns {
			s.pages[pattern] = f
		}
	}
	return s, nil
}

// fillIn makes a page: it names all its modules, so that the browser need not discover them one after the other.
func (s *site) fillIn(root fs.FS, p page, modules []string) (*file, error) {
	t, err := template.ParseFS(root, p.frame)
	if err != nil {
		return nil, err
	}
	in := struct {
		Assets, Home, Main string
		Styles, Modules    []string
	}{Assets: "/assets/" + s.version, Home: p.patterns[0], Main: p.main, Styles: p.styles}
	for _, m := range modules {
		if slices.ContainsFunc(p.modules, func(prefix string) bool { return strings.HasPrefix(m, prefix) }) {
			in.Modules = append(in.Modules, in.Assets+"/"+m)
		}
	}
	var text bytes.Buffer
	if err := t.Execute(&text, in); err != nil {
		return nil, err
	}
	return newFile(p.frame, text.Bytes(), p.policy)
}

// kinds are the media types of our files: the machine's own table may say something else.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".txt": "text/plain; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

func newFile(name string, text []byte, policy string) (*file, error) {
	f := &file{kind: kinds[path.Ext(name)], plain: text, policy: policy}
	if f.kind == "" {
		return nil, fmt.Errorf("web: %s: a file of a kind that is not served", name)
	}
	sum := sha256.Sum256(text)
	f.tag = hex.EncodeToString(sum[:8])
	f.zipped = sync.OnceValue(func() []byte { return compress(text) })
	return f, nil
}

// compress returns nil where it makes nothing shorter.
func compress(text []byte) []byte {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil
	}
	if _, err := z.Write(text); err != nil {
		return nil
	}
	if z.Close() != nil || b.Len() >= len(text) {
		return nil
	}
	return b.Bytes()
}

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
	h.Add("Vary", "Accept-Encoding")
	h.Set("Content-Security-Policy", f.policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	body, tag := f.plain, f.tag
	if takesGzip(r.Header.Get("Accept-Encoding")) {
		if zipped := f.zipped(); zipped != nil {
			body, tag = zipped, f.tag+"-gzip" // another representation, another tag
			h.Set("Content-Encoding", "gzip")
			h.Set("Content-Length", strconv.Itoa(len(body)))
		}
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

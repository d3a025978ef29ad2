package web

// defaultPolicy lets the pages use what this server hands out, and nothing inline; the last two rules make the
// browser refuse innerHTML and its kind.
const defaultPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// page is an HTML document.
type page struct {
	frame    string   // its template, below static
	patterns []string // where it is, as the router writes it
	modules  []string // prefixes of the modules that it loads, below static
	policy   string   // its Content-Security-Policy
}

var pages = []page{
	{ // the storefront
		frame: "index.html", patterns: []string{"/", "/orders", "/orders/:id"},
		modules: []string{"lib/", "shop/", "vendor/lean-qr.mjs"}, policy: defaultPolicy,
	},
}

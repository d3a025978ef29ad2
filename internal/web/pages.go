package web

// basePolicy lets the pages use what this server hands out, and nothing inline.
const basePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// defaultPolicy also makes the browser refuse innerHTML and its kind.
const defaultPolicy = basePolicy + "; require-trusted-types-for 'script'; trusted-types 'none'"

// docsPolicy is for Swagger UI, which makes markup of the document's descriptions. What is in them could still run no
// script.
const docsPolicy = basePolicy

// page is an HTML document.
type page struct {
	frame    string   // its template, below static
	patterns []string // where it is, as the router writes it; the first is its home
	main     string   // of app.html: the module that makes the page
	styles   []string // of app.html: its own style sheets
	modules  []string // prefixes of the modules that it loads, below static
	policy   string   // its Content-Security-Policy
}

var pages = []page{
	{ // the storefront
		frame: "app.html", patterns: []string{"/", "/orders", "/orders/:id"},
		main: "shop/main.js", styles: []string{"shop/shop.css"},
		modules: []string{"lib/", "shop/", "vendor/lean-qr.mjs"}, policy: defaultPolicy,
	},
	{ // the API's documentation
		frame: "docs.html", patterns: []string{"/docs"}, policy: docsPolicy,
	},
	{ // the console
		frame: "app.html",
		patterns: []string{
			"/console", "/console/new", "/console/sales/:id", "/console/orders", "/console/orders/:id", "/console/letters",
			"/console/reconcile", "/console/audit", "/console/rush",
		},
		main: "console/main.js", styles: []string{"vendor/uPlot.min.css", "console/console.css"},
		modules: []string{"lib/", "console/", "vendor/uPlot.esm.js"}, policy: defaultPolicy,
	},
}

package web

// basePolicy allows resources of this server only, and no inline scripts or styles.
const basePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// defaultPolicy also makes the browser reject innerHTML and similar ways to create elements from text.
const defaultPolicy = basePolicy + "; require-trusted-types-for 'script'; trusted-types 'none'"

// shopPolicy also allows the worker that solves challenges, by the one policy that shop/human.js creates.
const shopPolicy = basePolicy + "; require-trusted-types-for 'script'; trusted-types proof"

// docsPolicy is the policy of Swagger UI, which creates elements from the descriptions in the document. Scripts in them
// are still blocked.
const docsPolicy = basePolicy

// permissions turns off what no page uses, so that an injected script cannot use it either. The console reads codes with
// the camera.
const (
	permissions       = "camera=()" + otherPermissions
	cameraPermissions = "camera=(self)" + otherPermissions
	otherPermissions  = ", display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"
)

// appFrame is the template of the pages, below static.
const appFrame = "app.html"

type page struct {
	// Its paths as router patterns; the first is its home.
	patterns []string
	main     string // the script
	// Additional style sheets.
	styles []string
	policy string // its Content-Security-Policy
	// Its Permissions-Policy; empty: permissions.
	permissions string
}

// storefront is the script of the storefront.
const storefront = "shop/main.bundle.js"

var pages = []page{
	// The storefront.
	{
		patterns: []string{"/", "/orders", "/orders/:id"},
		main:     storefront,
		styles:   []string{"shop/shop.css"},
		policy:   shopPolicy,
	},
	// The console.
	{
		patterns: []string{
			"/console", "/console/sales", "/console/redeem", "/console/new", "/console/sales/:id", "/console/sales/:id/edit",
			"/console/shops", "/console/shops/:id", "/console/orders", "/console/orders/:id", "/console/dead-letters",
			"/console/events", "/console/notices", "/console/reconcile", "/console/audit", "/console/rush",
		},
		main:        "console/main.bundle.js",
		styles:      []string{"vendor/uPlot.min.css", "console/console.css"},
		policy:      defaultPolicy,
		permissions: cameraPermissions,
	},
}

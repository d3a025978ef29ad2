package web

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/evanw/esbuild/pkg/api"
)

// bundles are the bundles of all pages by their entry module. They are made once for all servers of the process.
var bundles = sync.OnceValues(func() (map[string][]byte, error) {
	root, err := fs.Sub(embedded, "static")
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, p := range pages {
		if all[p.main], err = bundle(root, p.main); err != nil {
			return nil, err
		}
	}
	return all, nil
})

// bundleOf returns the name of a bundle. It lies beside its entry module, so that relative paths of imports hold in both.
func bundleOf(main string) string { return strings.TrimSuffix(main, ".js") + ".bundle.js" }

// bundle returns one module with everything that the module main imports. Without it, a browser on a slow network waits
// for some forty modules, of which HTTP/1.1 loads six at a time. Comments and white space are left out, names stay.
func bundle(root fs.FS, main string) ([]byte, error) {
	sources := api.Plugin{Name: "embedded", Setup: func(build api.PluginBuild) {
		build.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
			return api.OnResolveResult{Path: path.Join(path.Dir(a.Importer), a.Path), Namespace: "static"}, nil
		})
		build.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: "static"}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
			text, err := fs.ReadFile(root, a.Path)
			contents := string(text)
			return api.OnLoadResult{Contents: &contents, Loader: api.LoaderJS}, err
		})
	}}
	r := api.Build(api.BuildOptions{
		EntryPoints: []string{main}, Bundle: true, Format: api.FormatESModule, Platform: api.PlatformBrowser, Target: api.ESNext,
		MinifyWhitespace: true, Charset: api.CharsetUTF8, Plugins: []api.Plugin{sources},
	})
	if problems := slices.Concat(r.Errors, r.Warnings); len(problems) > 0 {
		return nil, fmt.Errorf("web: bundle of %s: %s", main, problems[0].Text)
	}
	return r.OutputFiles[0].Contents, nil
}

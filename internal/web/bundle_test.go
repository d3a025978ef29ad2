package web

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// update makes TestBundlesAreCurrent write the bundles. `go generate ./internal/web` sets it.
var update = flag.Bool("update", false, "write the bundles")

// TestBundlesAreCurrent compares the bundles in the repository with their modules: main.bundle.js is beside every main.js of
// the folder static. Without it, a browser on a slow network waits for some forty modules, of which HTTP/1.1 loads six at a
// time.
func TestBundlesAreCurrent(t *testing.T) {
	root, err := os.OpenRoot("static")
	require.NoError(t, err)
	defer root.Close()

	want, err := bundles(root.FS())
	require.NoError(t, err)
	if *update {
		for name, text := range want {
			require.NoError(t, root.WriteFile(name, text, 0o644))
		}
	}

	have, err := fs.Glob(root.FS(), "*/*.bundle.js")
	require.NoError(t, err)
	require.Len(t, have, len(want))
	for name, text := range want {
		current, err := root.ReadFile(name)
		require.NoError(t, err)
		require.True(t, string(text) == string(current), "%s is out of date: run go generate ./internal/web", name)
	}
}

// TestBundleNamesMissingModule: an import of what does not exist is an error, and not a page that stays empty.
func TestBundleNamesMissingModule(t *testing.T) {
	_, err := bundle(fstest.MapFS{"shop/main.js": {Data: []byte(`import { a } from "../lib/none.js"; a();`)}}, "shop/main.js")
	assert.ErrorContains(t, err, "lib/none.js")
	_, err = bundle(fstest.MapFS{"shop/main.js": {Data: []byte(`import { a } from "../lib/one.js"; a();`)}, "lib/one.js": {Data: []byte("export const b = 1;")}}, "shop/main.js")
	assert.ErrorContains(t, err, `No matching export in "static:lib/one.js" for import "a"`)
}

// bundles returns the bundle of every entry module by its name. It lies beside the module, so that relative paths hold in
// both.
func bundles(root fs.FS) (map[string][]byte, error) {
	mains, err := fs.Glob(root, "*/main.js")
	if err != nil {
		return nil, err
	}

	all := map[string][]byte{}
	for _, main := range mains {
		if all[strings.TrimSuffix(main, ".js")+".bundle.js"], err = bundle(root, main); err != nil {
			return nil, err
		}
	}

	return all, nil
}

// bundle returns one module with everything that the module main imports. Comments and white space are left out, names
// stay.
func bundle(root fs.FS, main string) ([]byte, error) {
	sources := api.Plugin{Name: "static", Setup: func(build api.PluginBuild) {
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
		EntryPoints:      []string{main},
		Bundle:           true,
		Format:           api.FormatESModule,
		Platform:         api.PlatformBrowser,
		Target:           api.ESNext,
		MinifyWhitespace: true,
		LineLimit:        120,
		Charset:          api.CharsetUTF8,
		Plugins:          []api.Plugin{sources},
	})
	if problems := slices.Concat(r.Errors, r.Warnings); len(problems) > 0 {
		return nil, fmt.Errorf("%s: %s", main, problems[0].Text)
	}

	return r.OutputFiles[0].Contents, nil
}

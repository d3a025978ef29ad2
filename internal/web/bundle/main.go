// Command bundle makes the script of each page from its modules: main.bundle.js beside every main.js of the folder static.
// Without it, a browser on a slow network waits for some forty modules, of which HTTP/1.1 loads six at a time.
// `go generate ./internal/web` runs it.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	if err := write("static"); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

// write writes the bundles of a folder.
func write(folder string) error {
	all, err := bundles(os.DirFS(folder))
	if err != nil {
		return err
	}

	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()

	for name, text := range all {
		if err := root.WriteFile(name, text, 0o644); err != nil {
			return err
		}
	}

	return nil
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

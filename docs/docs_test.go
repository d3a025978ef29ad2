// Package docs_test compares the documents with the code: files, functions and tests that they name must exist.
package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = ".."

// documents returns the texts of all Markdown files by path, except the changelog, which describes the past.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	walk(t, func(path string) {
		if filepath.Ext(path) != ".md" || filepath.Base(path) == "CHANGELOG.md" || filepath.Base(path) == "RESULTS.md" {
			return
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		texts[path] = string(text)
	})
	require.Greater(t, len(texts), 10)
	return texts
}

func walk(t *testing.T, visit func(path string)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "data") {
			return filepath.SkipDir
		}
		if !entry.IsDir() {
			visit(path)
		}
		return nil
	}))
}

var file = regexp.MustCompile("`((?:cmd|internal|deploy|loadtest|docs)/[\\w./-]+)`")

func TestDocumentsNameExistingFiles(t *testing.T) {
	for path, text := range documents(t) {
		for _, m := range file.FindAllStringSubmatch(text, -1) {
			if m[1] == "loadtest/reports" { // written by load tests
				continue
			}
			_, err := os.Stat(filepath.Join(root, m[1]))
			assert.NoError(t, err, "%s names %s", path, m[1])
		}
	}
}

var testName = regexp.MustCompile(`\bTest[A-Z]\w+`)

func TestDocumentsNameExistingTests(t *testing.T) {
	known := map[string]bool{}
	walk(t, func(path string) {
		if strings.HasSuffix(path, "_test.go") {
			for _, name := range functions(t, path) {
				known[name] = true
			}
		}
	})
	for path, text := range documents(t) {
		for _, name := range testName.FindAllString(text, -1) {
			assert.True(t, known[name], "%s names %s", path, name)
		}
	}
}

var (
	anchor  = regexp.MustCompile(`\]\(([\w./-]*)#([^)\s]+)\)`)
	heading = regexp.MustCompile("(?m)^#+ (.+)$")
	dropped = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// TestDocumentsLinkToExistingHeadings derives anchors as GitHub does: lower case, no punctuation, hyphens for spaces.
func TestDocumentsLinkToExistingHeadings(t *testing.T) {
	texts, links := documents(t), 0
	for path, text := range texts {
		for _, m := range anchor.FindAllStringSubmatch(text, -1) {
			target := path
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(path), m[1])
			}
			if filepath.Ext(target) != ".md" { // a page's fragment
				continue
			}
			var anchors []string
			for _, h := range heading.FindAllStringSubmatch(texts[target], -1) {
				anchors = append(anchors, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
			}
			assert.Contains(t, anchors, m[2], "%s links to %s", path, m[0])
			links++
		}
	}
	require.Greater(t, links, 20)
}

// step is a row of a table in architecture.md: number, file, function.
var step = regexp.MustCompile("(?m)^\\| [\\d–]+ \\| `([\\w./]+\\.go)`[^|]*\\| `([\\w.]+)` \\|")

func TestArchitectureNamesExistingFunctions(t *testing.T) {
	steps := step.FindAllStringSubmatch(documents(t)[filepath.Join(root, "docs", "architecture.md")], -1)
	require.GreaterOrEqual(t, len(steps), 18, "the tables have changed their form")
	for _, s := range steps {
		assert.Contains(t, functions(t, filepath.Join(root, s[1])), s[2], s[1])
	}
}

// functions returns the names of the functions of a Go file, methods as Receiver.Method.
func functions(t *testing.T, path string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	var names []string
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil {
			name = receiver(f.Recv.List[0].Type) + "." + name
		}
		names = append(names, name)
	}
	return names
}

// receiver returns the name of a receiver's type without pointer and type parameters.
func receiver(of ast.Expr) string {
	switch e := of.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

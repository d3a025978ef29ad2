package check_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDocumentsNameWhatExists: the files, tests, functions and headings that documents name exist. The changelog describes
// the past.
func TestDocumentsNameWhatExists(t *testing.T) {
	texts, tests := documentsAndTests(t)
	require.Greater(t, len(texts), 10)
	file := regexp.MustCompile("`((?:cmd|internal|deploy|loadtest|docs|test)/[\\w./-]+)`")
	test := regexp.MustCompile(`\bTest[A-Z]\w+`)
	link := regexp.MustCompile(`\]\(([\w./-]*)#([^)\s]+)\)`)
	// A row of a table in architecture.md: number, file, function.
	step := regexp.MustCompile("(?m)^\\| [\\d–]+ \\| `([\\w./]+\\.go)`[^|]*\\| `(?:\\w+\\.)?(\\w+)` \\|")

	for path, text := range texts {
		for _, m := range file.FindAllStringSubmatch(text, -1) {
			if m[1] != "loadtest/reports" { // written by load tests
				_, err := os.Stat(filepath.Join(root, m[1]))
				assert.NoError(t, err, path)
			}
		}
		for _, name := range test.FindAllString(text, -1) {
			assert.True(t, strings.Contains(tests, "func "+name+"("), "%s names %s", path, name)
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target := path
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(path), m[1])
			}
			if filepath.Ext(target) == ".md" {
				assert.Contains(t, anchors(texts[target]), m[2], "%s links to %s", path, m[0])
			}
		}
		for _, m := range step.FindAllStringSubmatch(text, -1) {
			source, err := os.ReadFile(filepath.Join(root, m[1]))
			require.NoError(t, err, path)
			assert.Regexp(t, `(?m)^func .*\b`+m[2]+`[\[(]`, string(source), m[1])
		}
	}
}

// anchors returns the anchors of a document as GitHub derives them from headings: lower case, no punctuation, hyphens for
// spaces.
func anchors(text string) (found []string) {
	dropped := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	for _, h := range regexp.MustCompile("(?m)^#+ (.+)$").FindAllStringSubmatch(text, -1) {
		found = append(found, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return found
}

// documentsAndTests returns the texts of all Markdown files by path, and all Go tests.
func documentsAndTests(t *testing.T) (documents map[string]string, tests string) {
	t.Helper()
	documents = map[string]string{}
	var all strings.Builder
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "data") {
			return filepath.SkipDir
		}
		isTest := strings.HasSuffix(path, "_test.go")
		if !isTest && (filepath.Ext(path) != ".md" || entry.Name() == "CHANGELOG.md" || entry.Name() == "RESULTS.md") {
			return nil
		}
		text, err := os.ReadFile(path)
		if isTest {
			all.Write(text)
		} else {
			documents[path] = string(text)
		}
		return err
	}))
	return documents, all.String()
}

// Command words counts conversational words in comments, messages and documents, and fails above the aims.
//
// Sentences with the subject "who" or "nobody", and components that are "told" or "ask", are hard to read. The aims are
// counts per 1,000 words, as measured in well-kept projects of this field.
package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// rule is a set of words with the most occurrences allowed per 1,000 words.
type rule struct {
	name  string
	words *regexp.Regexp
	most  float64
}

var rules = []rule{
	{"who, whoever", regexp.MustCompile(`(?i)\b(who|whoever|whom)\b`), 0.3},
	{"nobody, somebody, everybody", regexp.MustCompile(`(?i)\b(nobody|somebody|everybody|anybody)\b`), 0.3},
	{"told, hears, asks, looks", regexp.MustCompile(`(?i)\b(tells?|told|hears?|heard|asks?|asked|looks?|looked|knows|knew)\b`), 1},
}

var word = regexp.MustCompile(`[A-Za-z]+(?:['’-][A-Za-z]+)*`)

// area is a part of the project with common counts.
type area struct {
	words  int
	counts []int
	files  map[string]int // occurrences by file
}

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	areas, err := count(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(2)
	}
	if failed := report(areas, os.Stdout); failed {
		os.Exit(1)
	}
}

// count reads the texts of all files below root.
func count(root string) (map[string]*area, error) {
	areas := map[string]*area{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", "vendor", "data", "reports", "node_modules"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		name, extract := kind(path)
		if extract == nil {
			return nil
		}
		text, err := os.ReadFile(path) //nolint:gosec // files of this project
		if err != nil {
			return err
		}
		a := areas[name]
		if a == nil {
			a = &area{counts: make([]int, len(rules)), files: map[string]int{}}
			areas[name] = a
		}
		a.add(path, extract(text))
		return nil
	})
	return areas, err
}

// add counts the words of one text.
func (a *area) add(path, text string) {
	a.words += len(word.FindAllString(text, -1))
	for i, r := range rules {
		n := len(r.words.FindAllString(text, -1))
		a.counts[i] += n
		if n > 0 {
			a.files[path] += n
		}
	}
}

// report prints a line per area and rule, and the worst files of each area above an aim.
func report(areas map[string]*area, out *os.File) (failed bool) {
	names := make([]string, 0, len(areas))
	for name := range areas {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		a, broken := areas[name], false
		for i, r := range rules {
			per := 1000 * float64(a.counts[i]) / float64(max(a.words, 1))
			verdict := "ok"
			if per > r.most && a.counts[i] > 1 {
				verdict, broken = "TOO MANY", true
			}
			fmt.Fprintf(out, "%-24s %-28s %4d of %6d words: %5.2f per 1,000, at most %.1f  %s\n", name, r.name, a.counts[i], a.words, per, r.most, verdict)
		}
		if broken {
			failed = true
			for _, f := range worst(a.files, 8) {
				fmt.Fprintf(out, "    %4d %s\n", a.files[f], f)
			}
		}
	}
	return failed
}

// worst returns the n files with the most occurrences.
func worst(files map[string]int, n int) []string {
	names := make([]string, 0, len(files))
	for f := range files {
		names = append(names, f)
	}
	slices.SortFunc(names, func(a, b string) int {
		if files[a] != files[b] {
			return files[b] - files[a]
		}
		return strings.Compare(a, b)
	})
	return names[:min(n, len(names))]
}

// kind returns the area of a file and the function that extracts its texts, or nil if the file is not checked.
func kind(path string) (area string, extract func([]byte) string) {
	path = filepath.ToSlash(path)
	switch ext := filepath.Ext(path); {
	case strings.Contains(path, ".ci/words/"):
		return "", nil // it contains the list of words
	case strings.HasSuffix(path, ".bundle.js"):
		return "", nil // it is generated from other files
	case strings.HasSuffix(path, "_test.go"):
		return "Go tests", goTexts
	case ext == ".go":
		return "Go source", goTexts
	case ext == ".lua":
		return "Lua", comments("--")
	case ext == ".sql":
		return "SQL", comments("--")
	case ext == ".js" || ext == ".css" || ext == ".html":
		return "pages", func(text []byte) string { return string(text) }
	case ext == ".md" && !strings.Contains(path, "zh-CN") && !strings.Contains(path, "glossary"):
		return "documents", func(text []byte) string { return string(text) }
	case ext == ".http" || strings.HasSuffix(path, "openapi.json"):
		return "API document", func(text []byte) string { return string(text) }
	case ext == ".yml" || ext == ".yaml" || ext == ".sh" || filepath.Base(path) == "Makefile":
		return "build and deployment", func(text []byte) string { return string(text) }
	}
	return "", nil
}

// goTexts returns the comments of a Go file and its strings of three or more words.
func goTexts(source []byte) string {
	var texts strings.Builder
	set := token.NewFileSet()
	var s scanner.Scanner
	s.Init(set.AddFile("", set.Base(), len(source)), source, nil, scanner.ScanComments)
	for {
		_, tok, lit := s.Scan()
		switch tok {
		case token.EOF:
			return texts.String()
		case token.COMMENT:
			texts.WriteString(lit + "\n")
		case token.STRING:
			if text, err := strconv.Unquote(lit); err == nil && strings.Count(text, " ") >= 2 {
				texts.WriteString(text + "\n")
			}
		default:
		}
	}
}

// comments returns a function that extracts the line comments that begin with mark.
func comments(mark string) func([]byte) string {
	return func(source []byte) string {
		var texts strings.Builder
		for line := range strings.SplitSeq(string(source), "\n") {
			if _, comment, ok := strings.Cut(line, mark); ok {
				texts.WriteString(comment + "\n")
			}
		}
		return texts.String()
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write creates a file in a new directory and returns the directory.
func write(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCountsCommentsAndSentences(t *testing.T) {
	dir := write(t, "a.go", "// Package a is for whoever asks.\npackage a\n\nvar who, x = \"who\", \"nobody was told this\"\n")
	areas, err := count(dir)
	if err != nil {
		t.Fatal(err)
	}
	a := areas["Go source"]
	if got := a.counts; got[0] != 1 || got[1] != 1 || got[2] != 2 || a.words != 10 {
		t.Fatalf("counts %v of %d words", got, a.words)
	}
}

func TestFailsAboveTheAims(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for text, want := range map[string]bool{
		strings.Repeat("plain words ", 500) + "who who":           true,
		strings.Repeat("plain words ", 5000) + "who who":          false,
		strings.Repeat("plain words ", 500) + "nobody everybody":  true,
		strings.Repeat("plain words ", 500) + "asks looks":        true,
		strings.Repeat("plain words ", 1500) + "asks looks told":  false,
		strings.Repeat("plain words ", 500) + "whose is asking ?": false,
	} {
		areas, err := count(write(t, "a.md", text))
		if err != nil {
			t.Fatal(err)
		}
		if got := report(areas, null); got != want {
			t.Errorf("%d words ending in %q: failed %t", len(text)/6, text[len(text)-20:], got)
		}
	}
}

package main

import (
	"io/fs"
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBundlesAreCurrent compares the bundles in the repository with their modules.
func TestBundlesAreCurrent(t *testing.T) {
	static := os.DirFS("../static")
	want, err := bundles(static)
	require.NoError(t, err)
	have, err := fs.Glob(static, "*/*.bundle.js")
	require.NoError(t, err)
	require.Len(t, have, len(want))
	for name, text := range want {
		current, err := fs.ReadFile(static, name)
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

package lock

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	_ "embed"
	"encoding/hex"

	"github.com/redis/go-redis/v9"
)

//go:embed common.lua
var commonSource string

// A script is one of the package's Lua scripts, with what they share before it.
type script struct{ source, sha string }

func newScript(source string) *script {
	source = commonSource + source
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
	return &script{source: source, sha: hex.EncodeToString(sum[:])}
}

func noScript(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

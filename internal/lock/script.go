package lock

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	_ "embed"
	"encoding/hex"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/common.lua
var commonSource string

// A script is one of the package's Lua scripts, including the shared text before it.
type script struct {
	source, sha string
	joint       *script // runs this one for many keys; nil if that is not possible
}

func newScript(source string) *script { return rawScript(commonSource + source) }

// rawScript returns a script that does not use common.lua.
func rawScript(source string) *script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
	return &script{source: source, sha: hex.EncodeToString(sum[:])}
}

// newJointScript returns a raw script of one key whose calls can be combined into one command. That saves the server
// the set-up of a script per call, which costs Redis as much as a short script itself, and miniredis ten times as much.
func newJointScript(source string) *script {
	s := rawScript(source)
	s.joint = rawScript("local function each(KEYS, ARGV)\n" + source + "\nend\n" + jointSource)
	return s
}

//go:embed lua/joint.lua
var jointSource string

func noScript(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

package lock

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua
var sources embed.FS

func lua(names ...string) string {
	var joined strings.Builder
	for _, name := range names {
		text, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err)
		}
		joined.Write(text)
	}
	return joined.String()
}

// A script is one of the package's Lua scripts, including the shared text before it.
type script struct {
	source string
	sha    string
	// joint runs this script for many keys. It is nil if that is not possible.
	joint *script
}

func newScript(source string) *script { return rawScript(lua("common") + source) }

func rawScript(source string) *script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
	return &script{source: source, sha: hex.EncodeToString(sum[:])}
}

// newJointScript returns a raw script of one key whose calls can be combined into one command. That saves the server
// the set-up of a script per call, which costs Redis as much as a short script itself, and miniredis ten times as much.
func newJointScript(source string) *script {
	s := rawScript(source)
	s.joint = rawScript("local function each(KEYS, ARGV)\n" + source + "\nend\n" + lua("joint"))
	return s
}

func noScript(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

// keysOf returns the keys of one lock in the order of its scripts: the lock itself, the queue, the waiters, and the
// kind's other keys. They share a hash tag, so that a cluster keeps them in one slot.
func keysOf(prefix, kind, name string, more ...string) []string {
	base := prefix + ":" + kind + ":{" + escape.Replace(name) + "}"
	keys := make([]string, 0, 3+len(more))
	keys = append(keys, base, base+":queue", base+":waiters")
	for _, suffix := range more {
		keys = append(keys, base+":"+suffix)
	}
	return keys
}

// requestKeys returns the keys of a lock followed by the key that stores the outcome of an id, which belongs to a
// request or an attempt.
func requestKeys(keys []string, id string) []string {
	return append(slices.Clip(keys), keys[0]+":done:"+id)
}

// fenceKey is the suffix of the key of the last fencing token.
const fenceKey = "fence"

// holdersKey is the suffix of the key of a leased semaphore's holders.
const holdersKey = "holders"

// escape keeps braces out of hash tags. Redis takes the tag from the first { to the first } after it, so the keys of a
// lock named "}" would have no common tag. Distinct names stay distinct, because the percent sign is encoded too.
var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// wakePrefix returns the prefix of the names of the wake channels; the client's id follows it. common.lua builds the
// same names.
func wakePrefix(prefix string) string { return prefix + ":wake:" }

func checkPrefix(prefix string) error {
	if prefix == "" || strings.ContainsAny(prefix, "{}") {
		return fmt.Errorf("lock: prefix of %q, want non-empty text without braces", prefix)
	}
	return nil
}

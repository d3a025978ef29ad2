package lock

import (
	"fmt"
	"slices"
	"strings"
)

// keysOf are the keys of one lock, in the order in which its scripts know them:
// the lock itself, the queue, the waiters, and what else the kind needs. They
// share their hash tag, so that a cluster keeps them in one slot.
func keysOf(prefix, kind, name string, more ...string) []string {
	base := prefix + ":" + kind + ":{" + escape.Replace(name) + "}"
	keys := make([]string, 0, 3+len(more))
	keys = append(keys, base, base+":queue", base+":waiters")
	for _, suffix := range more {
		keys = append(keys, base+":"+suffix)
	}
	return keys
}

// requestKeys are those of a lock and then the one that remembers what became of
// an id: of a request, or of an attempt.
func requestKeys(keys []string, id string) []string {
	return append(slices.Clip(keys), keys[0]+":done:"+id)
}

// fenceKey is the suffix of the key of the last fencing token.
const fenceKey = "fence"

// holdersKey is the suffix of the key of who has permits of a leased semaphore.
const holdersKey = "holders"

// escape keeps braces out of hash tags: Redis takes a tag from the first { to
// the first } after it, so that the keys of a lock named "}" would have no
// common one. Names stay different, because the percent sign is encoded, too.
var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// wakePrefix begins the names of the channels on which clients hear that it is
// a waiter's turn; the client's id follows. common.lua builds them as well.
func wakePrefix(prefix string) string { return prefix + ":wake:" }

func checkPrefix(prefix string) error {
	if prefix == "" || strings.ContainsAny(prefix, "{}") {
		return fmt.Errorf("lock: prefix of %q, want some text without braces", prefix)
	}
	return nil
}

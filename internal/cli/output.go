package cli

import (
	"fmt"
)

// count returns a number with its noun, whose plural ends with s.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

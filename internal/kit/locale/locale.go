// Package locale selects texts by the language of the environment.
package locale

import (
	"cmp"
	"os"
	"strings"
)

// Text returns its argument in that language: zh if LC_ALL, LC_MESSAGES or LANG, the first that is set, begins with zh, and en
// otherwise.
func Text(en, zh string) string {
	language := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_MESSAGES"), os.Getenv("LANG"))
	if strings.HasPrefix(language, "zh") {
		return zh
	}
	return en
}

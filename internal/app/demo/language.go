package demo

import (
	"cmp"
	"fmt"
	"os"
	"strings"
)

// text returns its argument in the language of the environment: zh if LC_ALL, LC_MESSAGES or LANG, the first that is set, begins with zh, and en
// otherwise.
func text(en, zh string) string {
	language := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_MESSAGES"), os.Getenv("LANG"))
	if strings.HasPrefix(language, "zh") {
		return zh
	}
	return en
}

// RushTitle returns the title of a load simulation's sale, in the language of the program's environment.
func RushTitle(stock int64) string {
	return fmt.Sprintf(text("Load simulation of %d units", "模拟抢购 %d 份"), stock)
}

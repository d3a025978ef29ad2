package cli

import (
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/mattn/go-isatty"
)

// count returns a number with its noun, whose plural ends with s.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// colored returns a writer that colours the words of results, or out itself if it is no terminal or NO_COLOR is set
// (no-color.org).
func colored(out io.Writer) io.Writer {
	file, ok := out.(*os.File)
	if !ok || !isatty.IsTerminal(file.Fd()) || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return out
	}
	return colorWriter{out}
}

// colorWriter colours the words of results. It is applied last, because the codes of colours would count for the width of
// columns.
type colorWriter struct{ out io.Writer }

var resultWord = regexp.MustCompile(`\b(BROKEN|fail|warn|holds|ok)\b`)

// wordColors are ANSI codes: red, yellow and green.
var wordColors = map[string]string{"BROKEN": "31", "fail": "31", "warn": "33", "holds": "32", "ok": "32"}

func (w colorWriter) Write(text []byte) (int, error) {
	_, err := w.out.Write(resultWord.ReplaceAllFunc(text, func(word []byte) []byte {
		return fmt.Appendf(nil, "\x1b[%sm%s\x1b[0m", wordColors[string(word)], word)
	}))
	if err != nil {
		return 0, err
	}
	return len(text), nil
}

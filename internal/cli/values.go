package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// valueMappers parse values like kong does, with errors that show a valid value.
func valueMappers() []kong.Option {
	return []kong.Option{
		kong.TypeMapper(reflect.TypeFor[time.Duration](), valueMapper("a number with its unit, such as 90s or 15m", func(target reflect.Value, text string) error {
			d, err := time.ParseDuration(text)
			target.SetInt(int64(d))
			return err
		})),
		kong.TypeMapper(reflect.TypeFor[slog.Level](), valueMapper("debug, info, warn or error", func(target reflect.Value, text string) error {
			return target.Addr().Interface().(*slog.Level).UnmarshalText([]byte(text))
		})),
		kong.KindMapper(reflect.Int, intMapper(bits.UintSize)), kong.KindMapper(reflect.Int64, intMapper(64)),
	}
}

func intMapper(size int) kong.Mapper {
	return valueMapper("a whole number, such as 1000", func(target reflect.Value, text string) error {
		n, err := strconv.ParseInt(text, 10, size)
		target.SetInt(n)
		return err
	})
}

// valueMapper returns a mapper that stores a value by set, whose errors are replaced by what the value should be.
func valueMapper(what string, set func(target reflect.Value, text string) error) kong.Mapper {
	return kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		token, err := ctx.Scan.PopValue(what)
		if err != nil {
			return err
		}
		text := fmt.Sprint(token.Value)
		if set(target, text) != nil {
			return fmt.Errorf("%q is not %s", text, what)
		}
		return nil
	})
}

// kongPhrases are the phrases of kong's errors that need an explanation.
var kongPhrases = []struct {
	phrase *regexp.Regexp
	words  string
}{
	{regexp.MustCompile(`: expected (.+?)( value)? but got "EOL" \(<EOL>\)`), " needs a value: $1"},
	{regexp.MustCompile(`bool value must be (.*) \(from envar .*\)`), "must be $1"},
	{regexp.MustCompile(`^unexpected argument (\S+)`), `"$1" is not a command or argument here`},
	{regexp.MustCompile(`^missing flags: `), "required: "},
}

// parseError returns the text of an error of the parser, and the help of the command that it is about.
func parseError(err error) string {
	text := err.Error()
	for _, p := range kongPhrases {
		text = p.phrase.ReplaceAllString(text, p.words)
	}
	help := "seckill --help"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil && parse.Context.Selected() != nil {
		help = strings.TrimSpace(parse.Context.Selected().FullPath()) + " --help"
	}
	return withVariables(errors.New(text)) + "\nTry: " + help
}

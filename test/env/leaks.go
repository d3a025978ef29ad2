package env

import (
	"regexp"
	"strings"
)

// secrets are what logs and metrics must not contain.
var secrets = []struct {
	name    string
	pattern *regexp.Regexp
}{
	{"access token", regexp.MustCompile(`\beyJ[\w-]{8,}\.[\w-]{8,}`)},
	{"refresh token", regexp.MustCompile(`\b[0-9a-f]{32}\.(?:[0-9]+\.)?[\w-]{20,}`)},
	{"redeem code", regexp.MustCompile(`\b[0-9A-Z]{4}(?:-[0-9A-Z]{4}){5}\b`)},
	{"entry pass", regexp.MustCompile(`\b[\w-]{2}AAA[\w-]{2}AAA[\w-]{20,}`)}, // the zeros of the epoch and of the expiry
	{"phone", regexp.MustCompile(`(?:^|[^\w.-])(?:\+[1-9][0-9]{6,14}|1[3-9][0-9]{9})(?:$|[^\w.])`)},
	{"login code", regexp.MustCompile(`(?i)\b(?:code|totp)"?[=:]"?[0-9]{6}\b`)},
}

// Leaks returns the secrets in the log or the metrics of a server: login codes, tokens, passes, redeem codes, phone
// numbers that are not masked, and the texts in known, such as the server's signing secret.
func Leaks(text string, known ...string) (found []string) {
	for _, s := range secrets {
		if leak := s.pattern.FindString(text); leak != "" {
			found = append(found, s.name+": "+leak)
		}
	}

	for _, k := range known {
		if strings.Contains(text, k) && regexp.MustCompile(`(?:^|[^\w.])`+regexp.QuoteMeta(k)+`(?:$|[^\w.])`).MatchString(text) {
			found = append(found, "known secret: "+k)
		}
	}

	return found
}

package domain

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseKeyring(t *testing.T) {
	for text, want := range map[string][]string{
		"":                     {},
		" , \n":                {},
		"one":                  {"one"},
		"new,old":              {"new", "old"},
		"new\r\nold\n":         {"new", "old"},
		" a phrase , another ": {"a phrase", "another"},
	} {
		secrets := []string{}
		for _, k := range ParseKeyring(text) {
			secrets = append(secrets, string(k.Secret))
		}
		require.Equal(t, want, secrets, "%q", text)
	}
}

// TestKeyIDs: an id depends on the secret alone, so that every server computes the same one at any position.
func TestKeyIDs(t *testing.T) {
	ring := NewKeyring([]byte("new"), []byte("old"))
	require.NotEqual(t, ring[0].ID, ring[1].ID)
	require.Equal(t, ring[1], NewKeyring([]byte("old"))[0])
	derived := ring.Derive("purpose")
	require.Equal(t, DeriveSecret([]byte("new"), "purpose"), derived.Signer())
	require.NotEqual(t, ring[0].ID, derived[0].ID, "a key id reveals nothing about other keys")
}

// A code is accepted as people type it (TestTyped), in any case and with lookalikes. A change of any character makes it invalid.
func TestRedeemCodes(t *testing.T) {
	codes, others := NewRedeemCodes(NewKeyring([]byte("one"))), NewRedeemCodes(NewKeyring([]byte("two")))
	const id = 3368803458027454465
	code := codes.Of(id)
	require.Regexp(t, `^([0-9A-HJKMNP-TV-Z]{4}-){5}[0-9A-HJKMNP-TV-Z]{4}$`, code)
	require.NotEqual(t, code, codes.Of(id+1))
	for _, typed := range []string{
		code, strings.ToLower(code), " " + strings.ReplaceAll(code, "-", "\u00a0") + "\r\n", strings.NewReplacer("0", "o", "1", "l").Replace(code),
		strings.NewReplacer("0", "O", "1", "I").Replace(code),
	} {
		got, err := codes.Parse(typed)
		require.NoError(t, err, typed)
		require.EqualValues(t, id, got)
	}
	wrong := []string{
		"", "-", code[:len(code)-1], code + "0", others.Of(id), strings.Repeat("U", 24), strings.Repeat("0", 24), "\x00", strings.Repeat("0", 1<<20),
		strings.ToLower(code)[1:] + code[:1],
	}
	for i, c := range code {
		for _, other := range "0Z" {
			if c != '-' && c != other {
				wrong = append(wrong, code[:i]+string(other)+code[i+1:])
			}
		}
	}
	for _, w := range wrong {
		_, err := codes.Parse(w)
		require.ErrorIs(t, err, ErrUnknownCode, "%.50q", w)
	}
}

// TestRedeemCodesAfterChangeOfSecret: codes shown before the change stay valid while the old secret is listed.
func TestRedeemCodesAfterChangeOfSecret(t *testing.T) {
	before, during, after := NewRedeemCodes(ParseKeyring("old")), NewRedeemCodes(ParseKeyring("new,old")), NewRedeemCodes(ParseKeyring("new"))
	for _, code := range []string{before.Of(7), during.Of(7)} {
		id, err := during.Parse(code)
		require.NoError(t, err)
		require.Equal(t, int64(7), id)
	}
	require.Equal(t, after.Of(7), during.Of(7))
	_, err := after.Parse(before.Of(7))
	require.ErrorIs(t, err, ErrUnknownCode)
	_, err = before.Parse(during.Of(7))
	require.ErrorIs(t, err, ErrUnknownCode)
}

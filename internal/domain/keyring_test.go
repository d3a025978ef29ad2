package domain

import (
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

package handler

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryOutcomeHasHmdpMessage: every error in the table, even a new one without its own message, yields a message
// that is not empty.
func TestEveryOutcomeHasHmdpMessage(t *testing.T) {
	for _, o := range append([]outcome{internalError, {code: "new", title: "Something new"}}, outcomes...) {
		var got struct {
			Success  *bool
			ErrorMsg string
		}
		p, _ := o.problem(nil)
		require.NoError(t, json.Unmarshal(hmdpBody(&p), &got), o.code)
		require.NotNil(t, got.Success, o.code)
		require.False(t, *got.Success, o.code)
		require.NotEmpty(t, got.ErrorMsg, o.code)
	}
}

package handler

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryOutcomeHasAMessage: the table from errors to answers may grow, and nobody is to hear an empty message.
func TestEveryOutcomeHasAMessage(t *testing.T) {
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

package app

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReceiverMustBeConfidential(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{
		"https://sms.example/codes": true, "http://127.0.0.1:9": true, "http://localhost/x": true, "http://[::1]:9": true,
		"http://sms.example": false, "http://10.0.0.1": false, "ftp://127.0.0.1": false, "sms.example": false, "https://": false, "http://127.0.0.1.evil.example": false,
	} {
		require.Equal(t, ok, isReceiver(url), url)
	}
}

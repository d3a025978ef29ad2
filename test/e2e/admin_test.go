package e2e

import (
	"image"
	"image/color"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"
	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// TestDemoDoesNotLimitCodes: the users of a demo share a few accounts, from private windows and scripts.
func TestDemoDoesNotLimitCodes(t *testing.T) {
	t.Parallel()
	p := rig.EmbeddedStack(t).With("SECKILL_RATE_LIMIT=on").Serve(t)
	for range 30 {
		require.NotEmpty(t, logIn(t, p, "13800000000")["access_token"])
	}
}

var otpauth = regexp.MustCompile(`(?m)^otpauth://totp/seckill:13900000002\?\S+$`)

// TestAdminCommands gives and takes a role while a server runs.
func TestAdminCommands(t *testing.T) {
	env.Full(t)
	t.Parallel()
	s := rig.EmbeddedStack(t)
	p := s.Serve(t)
	out := s.Exits(t, 0, "admin", "enroll", "--phone", "13900000002")
	require.Contains(t, out, "has the role operator")
	require.Equal(t, otpauth.FindString(out), readTerminalQR(t, out))
	require.NotContains(t, s.Exits(t, 0, "admin", "enroll", "--phone", "13900000003", "--role", "viewer"), "otpauth")
	s.Exits(t, 1, "admin", "enroll", "--phone", "1", "--role", "viewer")
	out = s.Exits(t, 1, "admin", "enroll", "--phone", "13900000004", "--role", "redeemer", "--shops", "1,99")
	require.Contains(t, out, "there is no shop 99")
	s.Exits(t, 0, "admin", "enroll", "--phone", "13900000004", "--role", "redeemer", "--shops", "1,2")

	token := p.LoginToken(t, "13900000002")
	require.Equal(t, http.StatusOK, p.Do(t, rig.Get("/admin/orders", token)).Status)
	out = s.Exits(t, 0, "admin", "list")
	require.Regexp(t, `13900000002 +operator +all +since 2`, out)
	require.Regexp(t, `13900000003 +viewer +all +not needed`, out)
	require.Regexp(t, `13900000004 +redeemer +1,2 +since 2`, out)

	s.Exits(t, 0, "admin", "remove", "--phone", "13900000002")
	rig.Eventually(t, "the session ends", func() bool {
		return p.Once(t, rig.Get("/admin/orders", token)).Status == http.StatusUnauthorized
	})
	require.NotContains(t, s.Exits(t, 0, "admin", "list"), "13900000002")
	s.Exits(t, 1, "admin", "remove", "--phone", "13900000099")

	require.Equal(t, []string{
		"admin remove 139****0099", "admin list", "admin remove 139****0002", "admin list", "admin enroll 139****0004", "admin enroll 139****0004", "admin enroll *", "admin enroll 139****0003", "admin enroll 139****0002",
	}, p.Commands(t))
}

// readTerminalQR decodes the QR code in the output of a command.
func readTerminalQR(t *testing.T, out string) string {
	t.Helper()
	const scale = 4 // pixels of a module
	var lines [][]rune
	for line := range strings.Lines(out) {
		if strings.ContainsAny(line, "█▀▄") {
			lines = append(lines, []rune(strings.TrimRight(line, "\n")))
		}
	}
	require.NotEmpty(t, lines)
	picture := image.NewGray(image.Rect(0, 0, scale*len(lines[0]), scale*2*len(lines)))
	for y := range picture.Rect.Dy() {
		for x := range picture.Rect.Dx() {
			module := lines[y/scale/2][x/scale]
			light := module == '█' || module == '▀' && y/scale%2 == 0 || module == '▄' && y/scale%2 == 1
			if light {
				picture.SetGray(x, y, color.Gray{Y: 255})
			}
		}
	}
	bitmap, err := gozxing.NewBinaryBitmapFromImage(picture)
	require.NoError(t, err)
	found, err := qrcode.NewQRCodeReader().Decode(bitmap, map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_PURE_BARCODE: true})
	require.NoError(t, err)
	return found.GetText()
}

package e2e

import (
	"bytes"
	"encoding/base64"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestDemoPicturesAreDrawn checks that each drawing of the demo has its picture. With -update it draws the pictures again.
func TestDemoPicturesAreDrawn(t *testing.T) {
	drawings, err := filepath.Glob("../demo/pictures/*.svg")
	require.NoError(t, err)
	require.Len(t, drawings, 3)
	for _, drawing := range drawings {
		picture := strings.TrimSuffix(drawing, ".svg") + ".png"
		if *update {
			drawPicture(t, drawing, picture)
		}
		text, err := os.ReadFile(picture)
		require.NoError(t, err)
		size, err := png.DecodeConfig(bytes.NewReader(text))
		require.NoError(t, err)
		require.Equal(t, []int{960, 540}, []int{size.Width, size.Height}, picture)
		require.Less(t, len(text), 60<<10, picture)
	}
}

func drawPicture(t *testing.T, drawing, picture string) {
	t.Helper()
	text, err := os.ReadFile(drawing)
	require.NoError(t, err)
	v := visit(t, startBrowser(t), "", "en-GB")
	v.do(chromedp.EmulateViewport(960, 540), chromedp.Navigate("data:image/svg+xml;base64,"+base64.StdEncoding.EncodeToString(text)))
	shot, err := chromedp.Run(v.ctx, chromedp.CaptureScreenshot())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(picture, shot, 0o644)) //nolint:gosec // a file of the repository
}

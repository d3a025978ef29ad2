package browser

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"seckill/internal/picture"
	"seckill/test/testenv"
)

// TestDemoPicturesAreDrawn checks that each drawing of the demo has its picture. With -update it draws the pictures again.
func TestDemoPicturesAreDrawn(t *testing.T) {
	testenv.Full(t)
	drawings, err := filepath.Glob("../../../internal/demo/pictures/*.svg")
	require.NoError(t, err)
	require.Len(t, drawings, 3)
	for _, drawing := range drawings {
		file := strings.TrimSuffix(drawing, ".svg") + ".jpg"
		if *update {
			drawPicture(t, drawing, file)
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		p, err := picture.Converted(text, time.Now())
		require.NoError(t, err)
		require.Equal(t, []int{960, 540}, []int{p.Width, p.Height}, file)
		require.Less(t, len(text), 60<<10, file)
	}
}

func drawPicture(t *testing.T, drawing, file string) {
	t.Helper()
	text, err := os.ReadFile(drawing)
	require.NoError(t, err)
	v := visit(t, startBrowser(t), "", "en-GB")
	v.do(chromedp.EmulateViewport(960, 540), chromedp.Navigate("data:image/svg+xml;base64,"+base64.StdEncoding.EncodeToString(text)))
	shot, err := chromedp.Run(v.ctx, chromedp.CaptureScreenshot())
	require.NoError(t, err)
	p, err := picture.Convert(t.Context(), shot, time.Now())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, p.JPEG, 0o644)) //nolint:gosec // a file of the repository
}

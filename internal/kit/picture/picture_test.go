package picture

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/env"
)

// noise returns a picture that compresses badly.
func noise(w, h int) *image.NRGBA {
	img, random := image.NewNRGBA(image.Rect(0, 0, w, h)), rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		img.Pix[i] = byte(random.Uint32())
		if i%4 == 3 {
			img.Pix[i] = 255 // opaque
		}
	}
	return img
}

func asPNG(t *testing.T, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.NoCompression}).Encode(&b, img))
	return b.Bytes()
}

func asJPEG(t *testing.T, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, jpeg.Encode(&b, img, nil))
	return b.Bytes()
}

// onePixel is a lossless WebP file.
var onePixel, _ = base64.StdEncoding.DecodeString("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")

// pngOf returns a PNG file of the given chunks, each a type and data, with right checksums.
func pngOf(chunks ...string) []byte {
	file := []byte("\x89PNG\r\n\x1a\n")
	for i := 0; i < len(chunks); i += 2 {
		file = binary.BigEndian.AppendUint32(file, uint32(len(chunks[i+1])))
		body := []byte(chunks[i] + chunks[i+1])
		file = binary.BigEndian.AppendUint32(append(file, body...), crc32.ChecksumIEEE(body))
	}
	return file
}

func ihdr(w, h uint32) string {
	return string(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, w), h)) + "\x08\x06\x00\x00\x00"
}

// withSegment inserts a segment after the first marker of a JPEG file.
func withSegment(file []byte, marker byte, data string) []byte {
	segment := append([]byte{0xff, marker}, byte((len(data)+2)>>8), byte(len(data)+2))
	return append(append(append([]byte{}, file[:2]...), append(segment, data...)...), file[2:]...)
}

func compressed(t testing.TB, data []byte) string {
	t.Helper()
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	env.Must(w.Write(data))(t)
	require.NoError(t, w.Close())
	return b.String()
}

// refusal requires that a file is refused, and returns the reason.
func refusal(t *testing.T, file []byte, name string) string {
	t.Helper()
	_, err := Convert(t.Context(), file, time.Time{})
	var invalid *domain.InvalidError
	require.ErrorAs(t, err, &invalid, name)
	require.Equal(t, "image", invalid.Fields[0].Field)
	return invalid.Fields[0].Detail
}

func TestConvert(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	deep := image.NewNRGBA64(image.Rect(5, 5, 105, 55)) // 16 bits per channel, transparent, and an origin of its own
	for name, tc := range map[string]struct {
		file []byte
		w, h int
	}{
		"jpeg":              {asJPEG(t, noise(300, 200)), 300, 200},
		"jpeg without end":  {bytes.TrimSuffix(asJPEG(t, noise(300, 200)), []byte("\xff\xd9")), 300, 200},
		"png":               {asPNG(t, noise(1, 1)), 1, 1},
		"png of 16 bits":    {asPNG(t, deep), 100, 50},
		"webp":              {onePixel, 1, 1},
		"noise":             {asPNG(t, noise(1280, 1280)), 720, 720}, // the size is lowered until the file is small
		"a smooth picture":  {asPNG(t, image.NewGray(image.Rect(0, 0, 4000, 3000))), 1280, 960},
		"a very long strip": {asPNG(t, image.NewGray(image.Rect(0, 0, 1, 100_000))), 1, 1280},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := env.Must(Convert(t.Context(), tc.file, at))(t)
			require.LessOrEqual(t, len(p.JPEG), 300_000)
			size := env.Must(jpeg.DecodeConfig(bytes.NewReader(p.JPEG)))(t)
			require.Equal(t, []int{tc.w, tc.h, tc.w, tc.h}, []int{p.Width, p.Height, size.Width, size.Height})
			require.Len(t, p.ID, 64)
			require.Equal(t, at, p.CreatedAt)
		})
	}
	p := env.Must(Convert(t.Context(), asPNG(t, deep), at))(t)
	img := env.Must(jpeg.Decode(bytes.NewReader(p.JPEG)))(t)
	require.Equal(t, p.ID, env.Must(Convert(t.Context(), asPNG(t, deep), at))(t).ID)
	require.Equal(t, color.YCbCr{255, 128, 128}, img.At(9, 9), "transparent parts are white")
}

// TestPhotographIsUpright stores a picture with a black top left quarter in each orientation.
func TestPhotographIsUpright(t *testing.T) {
	t.Parallel()
	img := image.NewGray(image.Rect(0, 0, 64, 32))
	filled(img, color.White)
	filled(img.SubImage(image.Rect(0, 0, 32, 16)).(draw.Image), color.Black)
	file := asJPEG(t, img)
	// The corner with the black quarter, as a viewer that follows EXIF shows it: right and bottom.
	for orientation, corner := range map[byte]image.Point{
		1: {0, 0}, 2: {1, 0}, 3: {1, 1}, 4: {0, 1}, 5: {0, 0}, 6: {1, 0}, 7: {1, 1}, 8: {0, 1}, 0: {0, 0}, 9: {0, 0},
	} {
		tiff := "II\x2a\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00" + string(orientation) + "\x00\x00\x00"
		shown := converted(t, withSegment(file, 0xe1, "Exif\x00\x00"+tiff))
		size := shown.Bounds().Size()
		require.Equal(t, orientation >= 5 && orientation <= 8, size.X < size.Y, orientation)
		for _, c := range []image.Point{{0, 0}, {1, 0}, {1, 1}, {0, 1}} {
			luma, _, _, _ := shown.At(size.X/4+c.X*size.X/2, size.Y/4+c.Y*size.Y/2).RGBA()
			require.Equal(t, c == corner, luma < 0x8000, "%d: corner %v", orientation, c)
		}
	}
}

// TestNothingOfTheFileRemains: a file that is a picture and a page or an archive at the same time becomes a picture only.
func TestNothingOfTheFileRemains(t *testing.T) {
	t.Parallel()
	const page = "<html><script>alert(1)</script>"
	jpg, pngFile := asJPEG(t, noise(20, 20)), asPNG(t, noise(20, 20))
	for name, file := range map[string][]byte{
		"a comment in a JPEG":  withSegment(jpg, 0xfe, page),
		"metadata in a JPEG":   withSegment(jpg, 0xe1, "http://ns.adobe.com/xap/1.0/\x00"+page),
		"a page after a JPEG":  append(bytes.Clone(jpg), page...),
		"an archive after one": append(bytes.Clone(jpg), "PK\x03\x04"+page...),
		"a page after a PNG":   append(bytes.Clone(pngFile), page...),
	} {
		p, err := Convert(t.Context(), file, time.Time{})
		require.NoError(t, err, name)
		require.NotContains(t, string(p.JPEG), "script", name)
		require.NotContains(t, string(p.JPEG), "PK\x03\x04", name)
	}
}

func TestOtherFilesAreRefused(t *testing.T) {
	t.Parallel()
	jpg := asJPEG(t, noise(200, 200))
	for name, file := range map[string]string{
		"nothing":        "",
		"an SVG":         `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`,
		"half a GIF":     "GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00",
		"half a picture": string(jpg[:len(jpg)/2]),
		"a magic number": "\x89PNG\r\n\x1a\n",
		"a RIFF of wave": "RIFF\x24\x00\x00\x00WAVEfmt ",
		"zero width":     string(pngOf("IHDR", ihdr(0, 1))),
	} {
		refusal(t, []byte(file), name)
	}
}

// TestConversionEnds: a decoder stops when the request has ended.
func TestConversionEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Convert(ctx, asJPEG(t, noise(20, 20)), time.Time{})
	require.ErrorIs(t, err, domain.ErrUnavailable)
}

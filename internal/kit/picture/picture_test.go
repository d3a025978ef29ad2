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
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
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
	env.Fails(Convert(ctx, asJPEG(t, noise(20, 20)), time.Time{}))(t, domain.ErrUnavailable)
}

var (
	red  = color.NRGBA{R: 0xff, A: 0xff}
	blue = color.NRGBA{B: 0xff, A: 0xff}
)

// halves returns a picture of 40 × 20 pixels whose left half is red and whose right half is blue.
func halves() *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, 40, 20))
	filled(img.SubImage(image.Rect(0, 0, 20, 20)).(draw.Image), red)
	filled(img.SubImage(image.Rect(20, 0, 40, 20)).(draw.Image), blue)
	return img
}

// The same as halves: the data of a VP8L chunk, and of a VP8 chunk.
var (
	halvesLossless = unbase64("LyfABAAPEPO///MfDgQChAP/tQYERPQ/StgD")
	halvesLossy    = unbase64("0AQAnQEqKAAUAD5tLJJFpCKhmAQAQAbEoAdgD8IOECGAfgBXf+4AAXvMGf2qMmAA/vCbQ//+QXZts5n//+QH/ID/kB" +
		"/4/p8rB/oMxubn8gOsn5xj//ID38/4AlgtacyDUbImldOMdHgAAA==")
)

func unbase64(s string) string {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// webpOf returns a WebP file of the given chunks, each a type and data.
func webpOf(chunks ...string) []byte {
	return []byte("RIFF" + le32(len("WEBP")+len(riff(chunks...))) + "WEBP" + riff(chunks...))
}

func riff(chunks ...string) string {
	var b strings.Builder
	for i := 0; i < len(chunks); i += 2 {
		b.WriteString(chunks[i] + le32(len(chunks[i+1])) + chunks[i+1])
		b.WriteString(strings.Repeat("\x00", len(chunks[i+1])%2))
	}
	return b.String()
}

func le32(n int) string { return string(binary.LittleEndian.AppendUint32(nil, uint32(n))) }
func le24(n int) string { return le32(n)[:3] }

// vp8x returns the data of the chunk that begins an extended WebP file of the size.
func vp8x(w, h int) string { return "\x00\x00\x00\x00" + le24(w-1) + le24(h-1) }

// anmf returns the data of a chunk with a frame at (x, y).
func anmf(x, y, w, h int, chunks ...string) string {
	return le24(x/2) + le24(y/2) + le24(w-1) + le24(h-1) + le24(100) + "\x00" + riff(chunks...)
}

// withChunk inserts a chunk after the first one of a PNG file.
func withChunk(file []byte, kind, data string) []byte {
	const header = 8 + 4 + 4 + 13 + 4
	return append(append(bytes.Clone(file[:header]), pngOf(kind, data)[8:]...), file[header:]...)
}

// converted returns the picture that buyers see.
func converted(t *testing.T, file []byte) image.Image {
	t.Helper()
	p := env.Must(Convert(t.Context(), file, time.Time{}))(t)
	return env.Must(jpeg.Decode(bytes.NewReader(p.JPEG)))(t)
}

// requireColor checks a pixel of a JPEG picture, whose colours are not exact.
func requireColor(t *testing.T, want color.NRGBA, img image.Image, x, y int, msg string) {
	t.Helper()
	r, g, b, _ := img.At(x, y).RGBA()
	require.InDelta(t, want.R, r>>8, 6, "red of %s at %d, %d", msg, x, y)
	require.InDelta(t, want.G, g>>8, 6, "green of %s at %d, %d", msg, x, y)
	require.InDelta(t, want.B, b>>8, 6, "blue of %s at %d, %d", msg, x, y)
}

// TestUprightInEveryFormat stores a picture on its side, with EXIF metadata that say so.
// Source: WordPress/performance#146, SixLabors/ImageSharp.Web#375.
func TestUprightInEveryFormat(t *testing.T) {
	t.Parallel()
	const tiff = "MM\x00\x2a\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00"
	for name, file := range map[string][]byte{
		"JPEG":                     withSegment(asJPEG(t, halves()), 0xe1, "Exif\x00\x00"+tiff),
		"JPEG after other markers": withSegment(withSegment(asJPEG(t, halves()), 0xe1, "Exif\x00\x00"+tiff), 0xe1, "http://ns.adobe.com/xap/1.0/\x00"),
		"JPEG, a second segment":   withSegment(withSegment(asJPEG(t, halves()), 0xe1, "Exif\x00\x00the rest of the thumbnail"), 0xe1, "Exif\x00\x00"+tiff),
		"PNG":                      withChunk(asPNG(t, halves()), "eXIf", tiff),
		"WebP":                     webpOf("VP8X", vp8x(40, 20), "VP8L", halvesLossless, "EXIF", tiff),
		"WebP with a JPEG header":  webpOf("VP8X", vp8x(40, 20), "VP8L", halvesLossless, "EXIF", "Exif\x00\x00"+tiff),
		"WebP, animated":           webpOf("VP8X", vp8x(40, 20), "ANMF", anmf(0, 0, 40, 20, "VP8L", halvesLossless), "EXIF", tiff),
	} {
		shown := converted(t, file)
		require.Equal(t, image.Pt(20, 40), shown.Bounds().Size(), name)
		requireColor(t, red, shown, 10, 9, name)
		requireColor(t, blue, shown, 10, 30, name)
	}
}

// TestFirstFrameOfAnAnimation: an animation becomes its first frame, on the whole canvas.
func TestFirstFrameOfAnAnimation(t *testing.T) {
	t.Parallel()
	palette := color.Palette{color.White, red, blue}
	second := image.NewPaletted(image.Rect(0, 0, 40, 20), palette)
	first := image.NewPaletted(second.Rect, palette)
	for i := range first.Pix {
		first.Pix[i] = 1 + byte(i%40/20)
	}
	var animated bytes.Buffer
	require.NoError(t, gif.EncodeAll(&animated, &gif.GIF{Image: []*image.Paletted{first, second}, Delay: []int{10, 10}}))

	for name, file := range map[string][]byte{
		"WebP": webpOf("VP8X", "\x02"+vp8x(40, 20)[1:], "ANIM", "\x00\x00\x00\x00\x00\x00",
			"ANMF", anmf(0, 0, 40, 20, "VP8L", halvesLossless), "ANMF", anmf(2, 2, 1, 1, "VP8L", string(onePixel[20:]))),
		"WebP, lossy": webpOf("VP8X", "\x02"+vp8x(40, 20)[1:], "ANIM", "\x00\x00\x00\x00\x00\x00",
			"ANMF", anmf(0, 0, 40, 20, "VP8 ", halvesLossy), "ANMF", anmf(0, 0, 40, 20, "VP8 ", halvesLossy)),
		"GIF": animated.Bytes(),
	} {
		shown := converted(t, file)
		require.Equal(t, image.Pt(40, 20), shown.Bounds().Size(), name)
		requireColor(t, red, shown, 8, 10, name)
		requireColor(t, blue, shown, 31, 10, name)
	}

	// A frame that is smaller than the canvas.
	first.Rect = image.Rect(20, 16, 60, 36)
	second.Rect = image.Rect(0, 0, 40, 20)
	var moved bytes.Buffer
	config := image.Config{Width: 80, Height: 40, ColorModel: palette}
	require.NoError(t, gif.EncodeAll(&moved, &gif.GIF{Image: []*image.Paletted{first, second}, Delay: []int{10, 10}, Config: config}))
	for name, file := range map[string][]byte{
		"WebP": webpOf("VP8X", "\x02"+vp8x(80, 40)[1:], "ANMF", anmf(20, 16, 40, 20, "VP8L", halvesLossless)),
		"GIF":  moved.Bytes(),
	} {
		shown := converted(t, file)
		require.Equal(t, image.Pt(80, 40), shown.Bounds().Size(), name)
		requireColor(t, color.NRGBA{R: 255, G: 255, B: 255}, shown, 8, 8, name)
		requireColor(t, red, shown, 28, 24, name)
		requireColor(t, blue, shown, 46, 24, name)
	}
}

// sof returns a JPEG file without data that states a size and the sampling factors of its components.
func sof(marker byte, w, h int, factors ...byte) []byte {
	frame := "\x08" + string(binary.BigEndian.AppendUint16(nil, uint16(h))) + string(binary.BigEndian.AppendUint16(nil, uint16(w))) + string(byte(len(factors)))
	for i, f := range factors {
		frame += string(byte(i+1)) + string(f) + "\x00"
	}
	return withSegment([]byte("\xff\xd8\xff\xda\x00\x02"), marker, frame)
}

// uniformProgressive returns a progressive JPEG file of 512 × 512 pixels.
func uniformProgressive(t *testing.T) []byte {
	t.Helper()
	const compressed = "eNr7f+P/AwYBLzdPNwZGRgYGRiBk+H+bwZlBgJuHj4dLgI+XT0hQQFhCQ0pCTEzCUFlVVsPK2NbG0tjC3MEjxs/BJdzV3CIgNzA8Pik9I93Ot7CyIKUi" +
		"JjU9GWQIo6CQkISohL6UlH6yk4VTMsng/yEGQQ4mBiYGZkYlBiZBRmZBxv9HGERAjkQFIFFGTNFbDDzMjAxMAswCDJh6RsEoGEkAlEcE0HPBAWAe4QDmHEZWJgZ2" +
		"kApBdBULwCqYGRntGRnk8ahgQqjAaQubPdQW3O6wVwSqgOZbBmagjMBozI2CkZ5v8eRKAYK5UoBArgSpYP9/EwASZF9x"
	r := env.Must(zlib.NewReader(strings.NewReader(unbase64(compressed))))(t)
	return env.Must(io.ReadAll(r))(t)
}

// interlaced returns an interlaced PNG file of 512 × 512 transparent pixels.
func interlaced(t *testing.T) []byte {
	t.Helper()
	const rows = 960 // of seven passes, each with a byte for its filter
	head := ihdr(512, 512)
	return pngOf("IHDR", head[:12]+"\x01", "IDAT", compressed(t, make([]byte, 4*512*512+rows)), "IEND", "")
}

func allocated(fn func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// inspected returns what is known of a file before it is decoded.
func inspected(t *testing.T, file []byte) parts {
	t.Helper()
	f := formatOf(file)
	return env.Must(f.inspect(file, env.Must(f.config(bytes.NewReader(file)))(t)))(t)
}

// TestMemoryOfDecoders: a decoder allocates no more than is expected from the header, and a little that does not depend on
// the size.
func TestMemoryOfDecoders(t *testing.T) {
	rect := image.Rect(0, 0, 512, 512)
	var animated bytes.Buffer
	palette := image.NewPaletted(rect, color.Palette{color.White, color.Black})
	require.NoError(t, gif.EncodeAll(&animated, &gif.GIF{Image: []*image.Paletted{palette, palette}, Delay: []int{1, 1}}))
	for name, file := range map[string][]byte{
		"JPEG":              asJPEG(t, image.NewNRGBA(rect)),
		"JPEG in gray":      asJPEG(t, image.NewGray(rect)),
		"progressive JPEG":  uniformProgressive(t),
		"PNG":               asPNG(t, image.NewNRGBA(rect)),
		"PNG in gray":       asPNG(t, image.NewGray(rect)),
		"PNG, 16 bits":      asPNG(t, image.NewNRGBA64(rect)),
		"PNG, with palette": asPNG(t, palette),
		"interlaced PNG":    interlaced(t),
		"GIF":               animated.Bytes(),
	} {
		found := inspected(t, file)
		var err error
		used := allocated(func() { _, err = formatOf(file).decode(bytes.NewReader(found.still)) })
		require.NoError(t, err, name)
		require.LessOrEqual(t, used, found.memory+200<<10, name)
		require.LessOrEqual(t, found.memory, 4*used, "%s: the limit is not much too low", name)
	}
}

// TestLargestPictures: what a phone takes is accepted, and what needs too much memory is refused before it is decoded, with
// its size and the limit. Files that claim, or unpack to, far more than they contain cost little memory.
// Source: slopus/happy#1749, odoo/odoo#103603, jocosocial/swiftarr#538.
func TestLargestPictures(t *testing.T) {
	const wide, high = 8064, 6048 // the 48 megapixels of a phone
	for name, file := range map[string][]byte{
		"JPEG":                           sof(0xc0, wide, high, 0x22, 0x11, 0x11),
		"JPEG without subsampling":       sof(0xc1, wide, high, 0x11, 0x11, 0x11),
		"JPEG of 108 megapixels":         sof(0xc0, 12000, 9000, 0x22, 0x11, 0x11),
		"progressive JPEG of 24":         sof(0xc2, 5712, 4284, 0x22, 0x11, 0x11),
		"PNG":                            pngOf("IHDR", ihdr(wide, high), "IDAT", "", "IEND", ""),
		"lossless WebP of 24 megapixels": webpOf("VP8X", vp8x(5712, 4284), "VP8L", ""),
	} {
		require.LessOrEqual(t, inspected(t, file).memory, maxDecoded, name)
	}
	for name, file := range map[string][]byte{
		"JPEG of 200 megapixels":     sof(0xc0, 16320, 12240, 0x22, 0x11, 0x11),
		"progressive JPEG":           sof(0xc2, wide, high, 0x22, 0x11, 0x11),
		"PNG of 64 megapixels":       pngOf("IHDR", ihdr(9248, 6936), "IDAT", "", "IEND", ""),
		"PNG of 16 bits":             pngOf("IHDR", strings.Replace(ihdr(wide, high), "\x08\x06", "\x10\x06", 1), "IDAT", "", "IEND", ""),
		"lossless WebP":              webpOf("VP8X", vp8x(wide, high), "VP8L", ""),
		"frame of a huge WebP":       webpOf("VP8X", vp8x(1, 1), "ANMF", anmf(0, 0, 16384, 16384, "VP8L", "")),
		"small frame of a huge WebP": webpOf("VP8X", vp8x(65536, 32767), "ANMF", anmf(0, 0, 40, 20, "VP8L", halvesLossless)),
		"GIF of 65535 × 65535":       []byte("GIF89a\xff\xff\xff\xff\x00\x00\x00"),
		"JPEG with fill bytes":       bytes.Replace(sof(0xc2, wide, high, 0x22, 0x11, 0x11), []byte("\xff\xc2"), []byte("\xff\xff\xff\xc2"), 1),
		"JPEG with stray bytes":      bytes.Replace(withSegment(sof(0xc2, wide, high, 0x22, 0x11, 0x11), 0xe0, "JFIF"), []byte("\xff\xc2"), []byte("xyz\xff\x00\xff\xc2"), 1),
		"JPEG with a stray marker":   bytes.Replace(sof(0xc2, wide, high, 0x22, 0x11, 0x11), []byte("\xff\xc2"), []byte("\xff\xd0\xff\xc2"), 1),
	} {
		detail := ""
		used := allocated(func() { detail = refusal(t, file, name) })
		require.Contains(t, detail, "at most "+strconv.Itoa(maxDecoded>>20)+" MB", name)
		require.Less(t, used, 1<<20, name)
	}
	for name, file := range map[string][]byte{
		"PNG of 16 pixels and 50 MB":  pngOf("IHDR", ihdr(4, 4), "IDAT", compressed(t, make([]byte, 50<<20)), "IEND", ""),
		"huge WebP on a small canvas": webpOf("VP8X", vp8x(1, 1), "VP8L", "\x2f\xff\xff\xff\x0f\x00\x00\x00\x00\x00\x00\x00\x00"),
	} {
		require.Less(t, allocated(func() { refusal(t, file, name) }), 1<<20, name)
	}
}

// TestPhotographOfAPhone converts 48 megapixels in bounded memory, and averages all of them.
func TestPhotographOfAPhone(t *testing.T) {
	img := image.NewYCbCr(image.Rect(0, 0, 8064, 6048), image.YCbCrSubsampleRatio420)
	for i := range img.Y {
		img.Y[i] = byte(i % 2 * 0xff) // columns of black and white, which average to gray
	}
	for i := range img.Cb {
		img.Cb[i] = 0x80
		img.Cr[i] = 0x80
	}
	var file bytes.Buffer
	require.NoError(t, jpeg.Encode(&file, img, &jpeg.Options{Quality: 30}))

	var p Picture
	var err error
	used := allocated(func() { p, err = Convert(t.Context(), file.Bytes(), time.Time{}) })
	require.NoError(t, err)
	require.Equal(t, []int{1280, 960}, []int{p.Width, p.Height})
	require.LessOrEqual(t, used, 400<<20)
	shown := env.Must(jpeg.Decode(bytes.NewReader(p.JPEG)))(t)
	for x := 1; x < 1280; x += 97 {
		requireColor(t, color.NRGBA{R: 0x80, G: 0x80, B: 0x80}, shown, x, 480, "gray")
	}
}

// FuzzConvert: no file makes a reader fail, or claim something that is not in the file.
func FuzzConvert(f *testing.F) {
	f.Add([]byte("\xff\xd8\xff\xe1\x00\x20Exif\x00\x00MM\x00\x2a\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00"))
	f.Add([]byte("\xff\xd8\xff\xe1\x00\x02\xff\xe1\xff\xffExif\x00\x00II\x2a\x00\xff\xff\xff\xff"))
	f.Add(adobe(cmyk))
	f.Add(webpOf("VP8X", vp8x(40, 20), "ICCP", string(displayP3()), "ANMF", anmf(0, 0, 40, 20, "VP8L", halvesLossless), "EXIF", "MM"))
	f.Add(pngOf("IHDR", ihdr(1, 1), "iCCP", "p\x00\x00", "eXIf", "II", "IDAT", "", "IEND", ""))
	f.Fuzz(func(t *testing.T, file []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p, err := Convert(ctx, file, time.Time{})
		if err == nil {
			require.LessOrEqual(t, len(p.JPEG), maxSize)
		}
	})
}

type tag struct{ name, data string }

// profile returns an ICC profile of the device class, colour space and connection space.
func profile(class, space, connection string, tags ...tag) []byte {
	const header = 128
	table := be32(len(tags))
	var data strings.Builder
	for _, tag := range tags {
		table += tag.name + be32(header+4+12*len(tags)+data.Len()) + be32(len(tag.data))
		data.WriteString(tag.data)
		data.WriteString(strings.Repeat("\x00", (4-len(tag.data)%4)%4))
	}
	head := be32(header+len(table)+data.Len()) + "\x00\x00\x00\x00" + be32(0x04300000) + class + space + connection +
		strings.Repeat("\x00", 12) + "acsp" + strings.Repeat("\x00", 28) + fixed(0.9642) + fixed(1) + fixed(0.8249)
	return []byte(head + strings.Repeat("\x00", header-len(head)) + table + data.String())
}

func be32(n int) string { return string(binary.BigEndian.AppendUint32(nil, uint32(n))) }

// fixed returns a number with 16 bits after the point.
func fixed(v float64) string { return be32(int(int32(math.Round(v * 65536)))) }

func xyz(x, y, z float64) string { return "XYZ \x00\x00\x00\x00" + fixed(x) + fixed(y) + fixed(z) }

// transfer is the curve of sRGB and of Display P3.
var transfer = "para\x00\x00\x00\x00\x00\x03\x00\x00" + fixed(2.4) + fixed(1/1.055) + fixed(0.055/1.055) + fixed(1/12.92) + fixed(0.04045)

// displayP3 returns the profile that phones embed: the primaries of Display P3, adapted to D50.
func displayP3() []byte {
	return profile("mntr", "RGB ", "XYZ ",
		tag{"wtpt", xyz(0.9642, 1, 0.8249)},
		tag{"rXYZ", xyz(0.51512, 0.24120, -0.00105)}, tag{"gXYZ", xyz(0.29198, 0.69225, 0.04189)}, tag{"bXYZ", xyz(0.15710, 0.06657, 0.78407)},
		tag{"rTRC", transfer}, tag{"gTRC", transfer}, tag{"bTRC", transfer})
}

// sameColor is that of a printing press that prints the same colour, whatever the ink: L* 50, a* 60, b* 40.
var sameColor = strings.Repeat("\x80\xbc\xa8", 16)

// press returns the profile of a printing press. The 16 colours are those of no ink, black, yellow, yellow and black, and so on.
func press(colors string) []byte {
	var ramp [256]byte
	for i := range ramp {
		ramp[i] = byte(i)
	}
	identity := fixed(1) + fixed(0) + fixed(0) + fixed(0) + fixed(1) + fixed(0) + fixed(0) + fixed(0) + fixed(1)
	table := "mft1\x00\x00\x00\x00\x04\x03\x02\x00" + identity + strings.Repeat(string(ramp[:]), 4) + colors + strings.Repeat(string(ramp[:]), 3)
	return profile("prtr", "CMYK", "Lab ", tag{"wtpt", xyz(0.9642, 1, 0.8249)}, tag{"A2B0", table})
}

// gammaOne returns the profile of a gray scale that is proportional to light.
func gammaOne() []byte {
	return profile("mntr", "GRAY", "XYZ ", tag{"wtpt", xyz(0.9642, 1, 0.8249)}, tag{"kTRC", "curv\x00\x00\x00\x00\x00\x00\x00\x00"})
}

// deflated returns the data of an iCCP chunk.
func deflated(t testing.TB, profile []byte) string {
	t.Helper()
	return "name\x00\x00" + compressed(t, profile)
}

func solid(c color.Color) image.Image { return filled(image.NewNRGBA(image.Rect(0, 0, 16, 16)), c) }

func filled(img draw.Image, c color.Color) image.Image {
	draw.Draw(img, img.Bounds(), image.NewUniform(c), image.Point{}, draw.Src)
	return img
}

// cmyk is a JPEG file of 8 × 8 pixels whose four components are 204, 51, 25 and 255 everywhere.
var cmyk = []byte("\xff\xd8" +
	"\xff\xdb\x00\x43\x00" + strings.Repeat("\x01", 64) +
	"\xff\xc0\x00\x14\x08\x00\x08\x00\x08\x04\x01\x11\x00\x02\x11\x00\x03\x11\x00\x04\x11\x00" +
	"\xff\xc4\x00\x1f\x00\x00\x01\x05\x01\x01\x01\x01\x01\x01" + strings.Repeat("\x00", 7) + "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b" +
	"\xff\xc4\x00\x14\x10\x01" + strings.Repeat("\x00", 16) + // one code, 0: end of block
	"\xff\xda\x00\x0e\x04\x01\x00\x02\x00\x03\x00\x04\x00\x00\x3f\x00" + "\xfe\x98\x1f\xcc\xbb\xf8\xc7\x7f\x7f\x0f" +
	"\xff\xd9")

// adobe returns the file with Adobe's marker, which says that the components are inverted.
func adobe(file []byte) []byte { return withSegment(file, 0xee, "Adobe\x00\x64\x00\x00\x00\x00\x00") }

// TestProfilesAreConverted: the colours of a picture in another space look the same in sRGB. The values in sRGB follow from
// the published primaries of Display P3.
// Source: photoprism/photoprism#1522, getkirby/kirby#2537.
func TestProfilesAreConverted(t *testing.T) {
	t.Parallel()
	icc := displayP3()
	halfway := len(icc) / 2
	first := "ICC_PROFILE\x00\x01\x02" + string(icc[:halfway])
	second := "ICC_PROFILE\x00\x02\x02" + string(icc[halfway:])
	for c, want := range map[color.NRGBA]color.NRGBA{
		{R: 200, G: 60, B: 40, A: 255}:   {R: 217, G: 42, B: 23},
		{R: 60, G: 160, B: 90, A: 255}:   {R: 0, G: 163, B: 82},
		{R: 240, G: 200, B: 60, A: 255}:  {R: 248, G: 198, B: 0},
		{R: 255, A: 255}:                 {R: 255},
		{R: 128, G: 128, B: 128, A: 255}: {R: 128, G: 128, B: 128},
		{R: 255, G: 255, B: 255, A: 255}: {R: 255, G: 255, B: 255},
	} {
		for name, file := range map[string][]byte{
			"JPEG":           withSegment(asJPEG(t, solid(c)), 0xe2, "ICC_PROFILE\x00\x01\x01"+string(icc)),
			"JPEG in parts":  withSegment(withSegment(asJPEG(t, solid(c)), 0xe2, first), 0xe2, second),
			"PNG":            withChunk(asPNG(t, solid(c)), "iCCP", deflated(t, icc)),
			"PNG of 16 bits": withChunk(asPNG(t, filled(image.NewNRGBA64(image.Rect(0, 0, 16, 16)), c)), "iCCP", deflated(t, icc)),
		} {
			requireColor(t, want, converted(t, file), 8, 8, name)
		}
	}

	for name, file := range map[string][]byte{
		"WebP":           webpOf("VP8X", "\x20"+vp8x(40, 20)[1:], "ICCP", string(icc), "VP8L", halvesLossless),
		"WebP, animated": webpOf("VP8X", "\x22"+vp8x(40, 20)[1:], "ICCP", string(icc), "ANMF", anmf(0, 0, 40, 20, "VP8L", halvesLossless)),
	} {
		shown := converted(t, file)
		requireColor(t, red, shown, 8, 10, name)
		requireColor(t, blue, shown, 31, 10, name)
	}

	// Without a profile, and with one that cannot be read, a picture counts as sRGB.
	c := color.NRGBA{R: 200, G: 60, B: 40, A: 255}
	requireColor(t, c, converted(t, asPNG(t, solid(c))), 8, 8, "no profile")
	requireColor(t, c, converted(t, withChunk(asPNG(t, solid(c)), "iCCP", deflated(t, icc[:halfway]))), 8, 8, "half a profile")
	requireColor(t, c, converted(t, withChunk(asPNG(t, solid(c)), "iCCP", deflated(t, press(sameColor)))), 8, 8, "a profile of CMYK")
	requireColor(t, c, converted(t, withChunk(asPNG(t, solid(c)), "iCCP", deflated(t, gammaOne()))), 8, 8, "a profile of gray")

	gray := image.NewGray(image.Rect(0, 0, 16, 16))
	for i := range gray.Pix {
		gray.Pix[i] = 55 // of the light; 0.2158 of 1 is 128 in sRGB
	}
	requireColor(t, color.NRGBA{R: 128, G: 128, B: 128}, converted(t, withChunk(asPNG(t, gray), "iCCP", deflated(t, gammaOne()))), 8, 8, "gray")
}

// TestCMYK: files of print shops are converted, by their profile if they have one, or refused by the name of the fault.
// Source: oven-sh/bun#40288, disintegration/imaging#6.
func TestCMYK(t *testing.T) {
	t.Parallel()
	// Adobe's files have the inverse of each channel: this is 20 % cyan, 80 % magenta, 90 % yellow, and no black.
	file := adobe(cmyk)
	requireColor(t, color.NRGBA{R: 204, G: 51, B: 25}, converted(t, file), 4, 4, "CMYK")
	printed := withSegment(file, 0xe2, "ICC_PROFILE\x00\x01\x01"+string(press(sameColor)))
	requireColor(t, color.NRGBA{R: 214, G: 61, B: 56}, converted(t, printed), 4, 4, "CMYK with a profile")

	// No press prints as dark as a screen is black. Its darkest colour is shown as black all the same.
	newspaper := press(strings.Repeat("\xff\x80\x80\x20\x80\x80", 8))
	newspaper[8] = 2 // the version of most profiles
	black := []byte{0, 0, 0, 0xff}
	conversion(newspaper, true, false)(black)
	require.Equal(t, make([]byte, 3), black[:3])

	wrong := withSegment(file, 0xe2, "ICC_PROFILE\x00\x01\x01"+string(displayP3()))
	requireColor(t, color.NRGBA{R: 204, G: 51, B: 25}, converted(t, wrong), 4, 4, "CMYK with a profile of RGB")

	detail := refusal(t, cmyk, "without a marker")
	require.Contains(t, detail, "CMYK")
	require.Contains(t, detail, "Save it as RGB")
}

// TestHostileProfiles: a profile that claims, or unpacks to, far more than the file contains costs little memory.
func TestHostileProfiles(t *testing.T) {
	good := displayP3()
	tags := bytes.Clone(good)
	binary.BigEndian.PutUint32(tags[128:], math.MaxUint32)
	size := bytes.Clone(good)
	binary.BigEndian.PutUint32(size[132+8:], math.MaxUint32)
	curve := "curv\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00"
	// Four channels of 255 grid points, whose values have no bytes.
	grid := "mAB \x00\x00\x00\x00\x03\x03\x00\x00" + be32(0) + be32(0) + be32(0) + be32(32) + be32(0) + "\xff\xff\xff\xff" + strings.Repeat("\x00", 16)
	embedded := "mAB \x00\x00\x00\x00\x03\x03\x00\x00" + be32(32) + be32(0) + be32(0) + be32(0) + be32(0) + curve
	for name, icc := range map[string][]byte{
		"number of tags":     tags,
		"size of a tag":      size,
		"points of a curve":  profile("mntr", "RGB ", "XYZ ", tag{"rXYZ", xyz(1, 0, 0)}, tag{"gXYZ", xyz(0, 1, 0)}, tag{"bXYZ", xyz(0, 0, 1)}, tag{"rTRC", curve}, tag{"gTRC", curve}, tag{"bTRC", curve}),
		"points of a grid":   profile("mntr", "RGB ", "Lab ", tag{"A2B0", grid}),
		"curve in a table":   profile("mntr", "RGB ", "Lab ", tag{"A2B0", embedded}),
		"200 MB of nothing":  make([]byte, 200<<20),
		"nothing":            nil,
		"4 MB after the end": append(bytes.Clone(good), make([]byte, 4<<20)...),
	} {
		file := withChunk(asPNG(t, solid(color.White)), "iCCP", deflated(t, icc))
		var err error
		used := allocated(func() { _, err = Convert(t.Context(), file, time.Time{}) })
		require.NoError(t, err, name)
		require.Less(t, used, 50<<20, name)
	}
}

package picture

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/draw"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tag is a tag of an ICC profile: its name and data.
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

// press returns the profile of a printing press that prints the same colour, whatever the ink: L* 50, a* 60, b* 40.
func press() []byte {
	var ramp [256]byte
	for i := range ramp {
		ramp[i] = byte(i)
	}
	identity := fixed(1) + fixed(0) + fixed(0) + fixed(0) + fixed(1) + fixed(0) + fixed(0) + fixed(0) + fixed(1)
	table := "mft1\x00\x00\x00\x00\x04\x03\x02\x00" + identity + strings.Repeat(string(ramp[:]), 4) + strings.Repeat("\x80\xbc\xa8", 16) + strings.Repeat(string(ramp[:]), 3)
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

	p3Red := color.NRGBA{R: 255}
	p3Blue := color.NRGBA{B: 255}
	for name, file := range map[string][]byte{
		"WebP":           webpOf("VP8X", "\x20"+vp8x(40, 20)[1:], "ICCP", string(icc), "VP8L", halvesLossless),
		"WebP, animated": webpOf("VP8X", "\x22"+vp8x(40, 20)[1:], "ICCP", string(icc), "ANMF", anmf(0, 0, 40, 20, "VP8L", halvesLossless)),
	} {
		shown := converted(t, file)
		requireColor(t, p3Red, shown, 8, 10, name)
		requireColor(t, p3Blue, shown, 31, 10, name)
	}

	// Without a profile, and with one that cannot be read, a picture counts as sRGB.
	c := color.NRGBA{R: 200, G: 60, B: 40, A: 255}
	requireColor(t, c, converted(t, asPNG(t, solid(c))), 8, 8, "no profile")
	requireColor(t, c, converted(t, withChunk(asPNG(t, solid(c)), "iCCP", deflated(t, icc[:halfway]))), 8, 8, "half a profile")
	requireColor(t, c, converted(t, withChunk(asPNG(t, solid(c)), "iCCP", deflated(t, press()))), 8, 8, "a profile of CMYK")
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
	printed := withSegment(file, 0xe2, "ICC_PROFILE\x00\x01\x01"+string(press()))
	requireColor(t, color.NRGBA{R: 214, G: 61, B: 56}, converted(t, printed), 4, 4, "CMYK with a profile")
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

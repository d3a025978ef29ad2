package picture

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"io"

	"github.com/kovidgoyal/imaging/prism/meta/icc"
	"golang.org/x/image/webp"
)

// decodeWebP decodes a WebP file. The decoder returns the samples of a lossy picture as they are stored, of which black is
// 16 and white is 235, as if they had the whole range of a byte: white would be gray.
func decodeWebP(r io.Reader) (image.Image, error) {
	img, err := webp.Decode(r)
	switch img := img.(type) {
	case *image.YCbCr:
		widen(img)
	case *image.NYCbCrA:
		widen(&img.YCbCr)
	}
	return img, err
}

func widen(img *image.YCbCr) {
	const black, lumaRange, neutral, chromaRange = 16, 219, 128, 224
	var luma, chroma [256]byte
	for v := range 256 {
		luma[v] = sample(float64(v-black) / lumaRange)
		chroma[v] = sample((float64(v-neutral)/chromaRange*0xff + neutral) / 0xff)
	}

	for i, v := range img.Y {
		img.Y[i] = luma[v]
	}

	for i, v := range img.Cb {
		img.Cb[i] = chroma[v]
	}

	for i, v := range img.Cr {
		img.Cr[i] = chroma[v]
	}
}

// toSRGB converts an opaque picture to sRGB in place: from CMYK, if its four channels are those, and from the space of its
// ICC profile. Without a profile that can be read, and that is one of such a picture (not of gray for a picture with colours), RGB counts as sRGB and CMYK is
// converted by its definition; browsers do the same. Error: *domain.InvalidError.
func toSRGB(img *image.RGBA, cmyk bool, profile []byte) (err error) {
	// The library indexes tables by what the profile says about their sizes.
	defer func() {
		if recover() != nil {
			err = refused("has a colour profile that cannot be used. Save it in sRGB")
		}
	}()

	convert := conversion(profile, cmyk, isGray(img))
	if convert == nil {
		return nil
	}

	for at := 0; at < len(img.Pix); at += 4 {
		convert(img.Pix[at : at+4 : at+4])
		img.Pix[at+3] = 0xff
	}

	return nil
}

func isGray(img *image.RGBA) bool {
	for at := 0; at < len(img.Pix); at += 4 {
		if img.Pix[at] != img.Pix[at+1] || img.Pix[at] != img.Pix[at+2] {
			return false
		}
	}
	return true
}

// conversion returns a function that replaces the channels of a pixel by its red, green and blue in sRGB, or nil if they
// are already.
func conversion(file []byte, cmyk, gray bool) func(pixel []byte) {
	channels := 3
	if cmyk {
		channels = 4
	}

	profile := profileOf(file)
	switch {
	case profile != nil && profile.Header.DataColorSpace == icc.ColorSpaceGray && gray && !cmyk:
		if to := transformer(profile, 1); to != nil {
			return grayConversion(to)
		}
	case profile != nil && !profile.IsSRGB():
		if to := transformer(profile, channels); to != nil {
			return func(pixel []byte) {
				var from, out [4]float64
				for c := range channels {
					from[c] = float64(pixel[c]) / 0xff
				}

				to.TransformGeneral(out[:], from[:])

				for c := range 3 {
					pixel[c] = sample(out[c])
				}
			}
		}
	}

	if cmyk {
		return func(pixel []byte) {
			pixel[0], pixel[1], pixel[2] = color.CMYKToRGB(pixel[0], pixel[1], pixel[2], pixel[3])
		}
	}

	return nil
}

// grayConversion returns a conversion by the profile of a picture without colours, whose red, green and blue are equal.
func grayConversion(to *icc.Pipeline) func(pixel []byte) {
	var table [256][3]byte
	for v := range table {
		r, g, b := to.Transform(float64(v)/0xff, 0, 0)
		table[v] = [3]byte{sample(r), sample(g), sample(b)}
	}
	return func(pixel []byte) { copy(pixel, table[pixel[1]][:]) }
}

func sample(v float64) byte { return byte(max(0, min(v, 1))*0xff + 0.5) }

// transformer returns the transformation to sRGB of a profile for that many channels, or nil if it has none. Colours that
// sRGB does not have are clipped, and the darkest colour becomes black: that of a press is gray.
func transformer(profile *icc.Profile, channels int) *icc.Pipeline {
	const (
		blackPoint = true
		clip       = true
		mapGamut   = false
		optimize   = true
	)

	to, err := profile.CreateTransformerToSRGB(icc.PerceptualRenderingIntent, blackPoint, channels, clip, mapGamut, optimize)
	if err != nil {
		return nil
	}

	return to
}

func profileOf(file []byte) *icc.Profile {
	const (
		header = 132 // with the number of tags
		entry  = 12  // of the table of tags: a name, an offset and a size
	)
	if len(file) < header || len(file) > maxProfile {
		return nil
	}

	tags := int(binary.BigEndian.Uint32(file[header-4:]))
	if tags > (len(file)-header)/entry {
		return nil
	}

	for i := range tags {
		tag := file[header+entry*i:]
		offset := int(binary.BigEndian.Uint32(tag[4:]))
		size := int(binary.BigEndian.Uint32(tag[8:]))
		if offset < header+entry*tags || offset+size > len(file) || !bounded(file[offset:offset+size]) {
			return nil
		}
	}

	profile, err := icc.DecodeProfile(bytes.NewReader(file))
	if err != nil {
		return nil
	}

	return profile
}

// bounded reports whether the tables of a tag are no longer than the tag. The library allocates a curve before it looks for
// it, and a colour table after it has multiplied the number of entries by their size, which may be zero.
func bounded(tag []byte) bool {
	const (
		position  = 24 // of the offset of the colour table
		precision = 16 // in the table: the size of an entry
	)

	kind := string(tag[:min(4, len(tag))])
	if kind == "curv" {
		return curveIsThere(tag)
	}
	if kind != "mAB " && kind != "mBA " || len(tag) < position+4 {
		return true
	}

	for rest := tag; ; rest = rest[4:] {
		at := bytes.Index(rest, []byte("curv"))
		if at < 0 {
			break
		}

		rest = rest[at:]
		if !curveIsThere(rest) {
			return false
		}
	}

	table := int(binary.BigEndian.Uint32(tag[position:]))
	if table == 0 {
		return true
	}

	return table+precision < len(tag) && (tag[table+precision] == 1 || tag[table+precision] == 2)
}

func curveIsThere(curve []byte) bool {
	// With the number of points.
	const head = 12
	return len(curve) >= head && int(binary.BigEndian.Uint32(curve[head-4:])) <= (len(curve)-head)/2
}

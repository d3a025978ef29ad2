package picture

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"image"
	"image/color"
	"io"
	"iter"
)

// parts is what a file contains for its conversion. The slices are parts of the upload where possible, and a length in the
// file is never believed: the readers of metadata in libraries allocate what a file claims, up to 4 GB, and inflate
// profiles without a limit.
type parts struct {
	// A TIFF header and its directories, or nil.
	exif []byte
	// An ICC profile, or nil.
	profile []byte
	// The file to decode.
	still []byte
	// Where its picture lies on the canvas.
	at image.Point
	// Bytes that its decoder allocates.
	memory int
}

// maxProfile bounds a colour profile. Those of printing presses have up to 3 MB.
const maxProfile = 4 << 20

var (
	exifSignature    = []byte("Exif\x00\x00")
	profileSignature = []byte("ICC_PROFILE\x00")
	adobeSignature   = []byte("Adobe")
)

// jpegParts inspects a JPEG file. The decoder keeps a byte for each sample, four more for each if the file is progressive,
// and four for each pixel of a file in RGB or CMYK.
func jpegParts(file []byte, header image.Config) (parts, error) {
	p := parts{still: file}

	var (
		frame       []byte
		progressive bool
		// Adobe's marker says how the channels are stored.
		adobe   bool
		profile [256][]byte
	)

	for marker, data := range jpegSegments(file) {
		switch {
		case marker >= 0xc0 && marker <= 0xc2:
			frame = data
			progressive = marker == 0xc2
		case marker == 0xe1 && bytes.HasPrefix(data, exifSignature) && p.exif == nil:
			// Further segments continue a long one.
			p.exif = data[len(exifSignature):]
		case marker == 0xe2 && bytes.HasPrefix(data, profileSignature) && len(data) > len(profileSignature)+2:
			profile[data[len(profileSignature)]] = data[len(profileSignature)+2:]
		case marker == 0xee && bytes.HasPrefix(data, adobeSignature):
			adobe = true
		}
	}

	p.profile = bytes.Join(profile[:], nil)

	if header.ColorModel == color.CMYKModel && !adobe {
		return parts{}, refused("is in CMYK and does not say in which form. Save it as RGB")
	}

	// Of the first component: an identifier, the sampling factors, and a table.
	const first = 6
	if len(frame) < first+3 || frame[first+1]>>4 == 0 || frame[first+1]&15 == 0 {
		return parts{}, refused("cannot be read: a JPEG file without a frame")
	}

	// The edge of a block.
	const edge = 8
	wide := edge * int(frame[first+1]>>4)
	high := edge * int(frame[first+1]&15)
	units := (header.Width + wide - 1) / wide * ((header.Height + high - 1) / high)
	for c := first + 1; c < len(frame); c += 3 {
		p.memory += units * edge * int(frame[c]>>4) * edge * int(frame[c]&15)
	}

	if progressive {
		p.memory *= 5
	}
	if header.ColorModel == color.RGBAModel || header.ColorModel == color.CMYKModel {
		p.memory += 4 * header.Width * header.Height
	}

	return p, nil
}

// jpegSegments returns the markers before the first scan of a JPEG file, with their data. Like decoders it skips what is
// between segments.
func jpegSegments(file []byte) iter.Seq2[byte, []byte] {
	const scan, restart0, restart7, end = 0xda, 0xd0, 0xd7, 0xd9

	return func(yield func(byte, []byte) bool) {
		for at := 2; at+1 < len(file); {
			marker := file[at+1]
			switch {
			case file[at] != 0xff || marker == 0xff:
				at++
				continue
			case marker == 0, marker >= restart0 && marker <= restart7:
				at += 2
				continue
			case marker == scan, marker == end, at+4 > len(file):
				return
			}

			length := int(binary.BigEndian.Uint16(file[at+2:]))
			if length < 2 {
				return
			}

			next := min(at+2+length, len(file))
			if !yield(marker, file[at+4:next]) {
				return
			}

			at = next
		}
	}
}

// pngParts inspects a PNG file. The frames of an animation are in chunks that its decoder does not know; it returns the
// picture for programs that show none, which is the first frame as a rule.
func pngParts(file []byte, header image.Config) (parts, error) {
	p := parts{still: file}
	pixel := 4
	for kind, data := range pngChunks(file) {
		switch {
		case kind == "IHDR" && len(data) >= 13:
			// A palette.
			if data[9] == 3 {
				pixel = 1
			}

			// Bits.
			if data[8] == 16 {
				pixel = 8
			}

			// Interlaced: the passes are pictures, too.
			if data[12] != 0 {
				pixel *= 2
			}
		case kind == "eXIf":
			p.exif = bytes.TrimPrefix(data, exifSignature)
		case kind == "iCCP":
			p.profile = inflated(data)
		}
	}

	p.memory = pixel * header.Width * header.Height
	return p, nil
}

// inflated returns the profile in an iCCP chunk: a name, a zero, the method zero, and the compressed profile. It returns nil
// if there is none or if it is damaged.
func inflated(chunk []byte) []byte {
	_, compressed, found := bytes.Cut(chunk, []byte{0})
	if !found || len(compressed) == 0 || compressed[0] != 0 {
		return nil
	}

	r, err := zlib.NewReader(bytes.NewReader(compressed[1:]))
	if err != nil {
		return nil
	}

	profile, err := io.ReadAll(io.LimitReader(r, maxProfile+1))
	if err != nil || len(profile) > maxProfile {
		return nil
	}

	return profile
}

func pngChunks(file []byte) iter.Seq2[string, []byte] {
	const signature, head, checksum = 8, 8, 4

	return func(yield func(string, []byte) bool) {
		rest := file[min(signature, len(file)):]
		for len(rest) >= head {
			kind := string(rest[4:head])
			length := min(int(binary.BigEndian.Uint32(rest)), len(rest)-head)
			if !yield(kind, rest[head:head+length]) {
				return
			}
			rest = rest[min(head+length+checksum, len(rest)):]
		}
	}
}

// webpParts inspects a WebP file. The decoder of a lossless picture may have two copies of four bytes for each pixel, and
// that of a lossy one has them for the alpha channel. A canvas counts as a byte for each pixel, although a frame may be
// small: it takes time to fill.
func webpParts(file []byte, header image.Config) (parts, error) {
	const signature = 12
	p := parts{still: file}
	pixels := header.Width * header.Height
	animated := false

	for kind, data := range webpChunks(file[signature:]) {
		switch {
		case kind == "ICCP":
			p.profile = data
		case kind == "EXIF":
			p.exif = bytes.TrimPrefix(data, exifSignature)
		case kind == "VP8L":
			p.memory += 8 * pixels
		case kind == "VP8 ":
			p.memory += 2 * pixels
		case kind == "ALPH":
			p.memory += 9 * pixels
		case kind == "ANMF" && !animated:
			animated = true
			frame, err := frameParts(data)
			if err != nil {
				return parts{}, err
			}

			p.still = frame.still
			p.at = frame.at
			p.memory += frame.memory
		}
	}

	p.memory = max(p.memory, pixels)
	return p, nil
}

// frameParts makes a file from a frame of an animation, which the decoder does not know: from the place and size of the
// frame and the same chunks as in the file of a still picture.
func frameParts(frame []byte) (parts, error) {
	// X, y, width and height in 3 bytes each, 3 bytes of duration, and flags.
	const head = 16
	if len(frame) < head {
		return parts{}, refused("cannot be read: an animation without a frame")
	}

	size := frame[6:12]
	chunks := frame[head:]

	flags := byte(0)
	for kind := range webpChunks(chunks) {
		if kind == "ALPH" {
			flags = 0x10
		}
	}

	still := []byte("RIFF")
	still = binary.LittleEndian.AppendUint32(still, uint32(len("WEBPVP8X")+4+10+len(chunks))) //nolint:gosec // at most MaxUpload
	still = append(still, "WEBPVP8X\x0a\x00\x00\x00"...)
	still = append(still, flags, 0, 0, 0)
	still = append(still, size...)
	still = append(still, chunks...)

	p, err := webpParts(still, image.Config{Width: uint24(size) + 1, Height: uint24(size[3:]) + 1})
	p.at = image.Pt(2*uint24(frame), 2*uint24(frame[3:]))
	return p, err
}

func uint24(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }

func webpChunks(rest []byte) iter.Seq2[string, []byte] {
	const head = 8

	return func(yield func(string, []byte) bool) {
		for len(rest) >= head {
			kind := string(rest[:4])
			length := min(int(binary.LittleEndian.Uint32(rest[4:])), len(rest)-head)
			if !yield(kind, rest[head:head+length]) {
				return
			}
			rest = rest[min(head+length+length%2, len(rest)):]
		}
	}
}

// gifParts inspects a GIF file, whose decoder has up to two copies of a byte for each pixel.
func gifParts(file []byte, header image.Config) (parts, error) {
	return parts{still: file, memory: 2 * header.Width * header.Height}, nil
}

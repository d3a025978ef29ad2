// Package picture turns uploaded pictures into files that are safe and small enough to show to buyers.
//
// An upload is decoded and encoded again, so that nothing of the original file reaches a buyer: no metadata (such as the
// place where a photograph was taken), no script in a file that is a picture and a page at the same time.
package picture

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"strings"
	"time"

	"golang.org/x/image/webp"

	"seckill/internal/domain"
)

// Picture is a picture as buyers see it. It never changes.
type Picture struct {
	// The SHA-256 of JPEG in hexadecimal digits.
	ID            string
	Width, Height int
	// At most maxSize.
	JPEG      []byte `gorm:"column:jpeg"`
	CreatedAt time.Time
}

// IsID reports whether a text has the form of Picture.ID.
func IsID(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == sha256.Size
}

// The limits of an upload and of the picture made from it.
const (
	MaxUpload = 10 << 20 // bytes

	maxDecoded = 200 << 20 // bytes that the decoder of an upload may need
	maxSide    = 1280      // pixels of the result; twice the width of a page on a phone
	maxSize    = 300_000   // bytes of the result
)

type format struct {
	// The first bytes; a ? matches any byte.
	magic   string
	config  func(io.Reader) (image.Config, error)
	inspect func(file []byte, header image.Config) (parts, error)
	decode  func(io.Reader) (image.Image, error)
}

// formats are called by name instead of through image.Decode, which also uses any format that another package registers.
var formats = []format{
	{"\xff\xd8\xff", jpeg.DecodeConfig, jpegParts, decodeJPEG},
	{"\x89PNG\r\n\x1a\n", png.DecodeConfig, pngParts, png.Decode},
	{"RIFF????WEBP", webp.DecodeConfig, webpParts, decodeWebP},
	{"GIF8?a", gif.DecodeConfig, gifParts, gif.Decode},
}

// decodeJPEG decodes a JPEG file. Some cameras and programs leave out the end marker, which viewers
// do not require, but image/jpeg does.
func decodeJPEG(r io.Reader) (image.Image, error) {
	return jpeg.Decode(io.MultiReader(r, strings.NewReader("\xff\xd9")))
}

func refused(reason string, args ...any) error { return domain.Invalid("image", reason, args...) }

// Convert makes a picture from an uploaded JPEG, PNG, WebP or GIF file: upright, in sRGB, at most maxSide wide and high, on
// a white ground, in at most maxSize bytes. Of an animation it takes the first frame. It decodes only files that need at
// most maxDecoded bytes for it, and stops soon after ctx ends. A large file needs about 400 MB of memory in all, so callers
// bound the calls that run at the same time.
// Errors: *domain.InvalidError (image), domain.ErrUnavailable (ctx has ended).
func Convert(ctx context.Context, upload []byte, at time.Time) (Picture, error) {
	f := formatOf(upload)
	if f == nil {
		return Picture{}, refused("must be a JPEG, PNG, WebP or GIF file")
	}

	header, err := f.config(bytes.NewReader(upload))
	if err != nil {
		return Picture{}, refused("cannot be read: %v", err)
	}
	if header.Width < 1 || header.Height < 1 {
		return Picture{}, refused("must have at least one pixel")
	}

	file, err := f.inspect(upload, header)
	if err != nil {
		return Picture{}, err
	}

	if file.memory > maxDecoded {
		return Picture{}, refused("is too large: %d × %d pixels of this kind take %d MB of memory to decode, and at most %d MB are used. Reduce it",
			header.Width, header.Height, file.memory>>20, maxDecoded>>20)
	}

	img, err := f.decode(untilDone{ctx, bytes.NewReader(file.still)})
	switch {
	case ctx.Err() != nil:
		return Picture{}, unavailable(ctx)
	case err != nil:
		return Picture{}, refused("cannot be read: %v", err)
	}

	canvas := image.Pt(header.Width, header.Height)
	reduced, err := averaged(ctx, img, file.at, canvas, 2*maxSide)
	if err != nil {
		return Picture{}, err
	}

	_, cmyk := img.(*image.CMYK)
	if err := toSRGB(reduced, cmyk, file.profile); err != nil {
		return Picture{}, err
	}

	encoded, err := encode(upright(scaled(reduced, within(canvas, maxSide)), orientation(file.exif)))
	if err != nil {
		return Picture{}, err
	}

	return Converted(encoded, at)
}

func unavailable(ctx context.Context) error {
	return fmt.Errorf("%w: %w", domain.ErrUnavailable, ctx.Err())
}

// Converted returns the picture with the JPEG of an earlier [Convert].
func Converted(encoded []byte, at time.Time) (Picture, error) {
	size, err := jpeg.DecodeConfig(bytes.NewReader(encoded))
	if err != nil {
		return Picture{}, fmt.Errorf("decode a picture: %w", err)
	}

	sum := sha256.Sum256(encoded)

	return Picture{
		ID:        hex.EncodeToString(sum[:]),
		Width:     size.Width,
		Height:    size.Height,
		JPEG:      encoded,
		CreatedAt: at,
	}, nil
}

func formatOf(file []byte) *format {
	for i, f := range formats {
		if len(file) < len(f.magic) {
			continue
		}

		match := true
		for k := range len(f.magic) {
			match = match && (f.magic[k] == '?' || f.magic[k] == file[k])
		}

		if match {
			return &formats[i]
		}
	}

	return nil
}

// untilDone is a reader that fails when ctx has ended. Decoders cannot be cancelled, and a small file can keep one busy
// for minutes: a progressive JPEG with many scans.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// encode returns the picture as JPEG in at most maxSize bytes. It lowers the quality first, and then the size.
func encode(img *image.RGBA) ([]byte, error) {
	for {
		for _, quality := range []int{85, 75, 60} {
			var b bytes.Buffer
			if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: quality}); err != nil {
				return nil, fmt.Errorf("encode a picture: %w", err)
			}
			if b.Len() <= maxSize {
				return b.Bytes(), nil
			}
		}

		size := img.Bounds().Size()
		img = scaled(img, within(size, max(size.X, size.Y)*3/4))
	}
}

package picture

import (
	"context"
	"image"

	"golang.org/x/image/draw"
)

func within(size image.Point, most int) image.Point {
	longer := max(size.X, size.Y)
	if longer <= most {
		return size
	}
	return image.Pt(max(1, size.X*most/longer), max(1, size.Y*most/longer))
}

// scaled returns the picture in another size. The scaler needs 32 bytes for each row of the picture and column of the
// result, so that a large picture goes through averaged first.
func scaled(img *image.RGBA, size image.Point) *image.RGBA {
	if size == img.Bounds().Size() {
		return img
	}
	out := image.NewRGBA(image.Rectangle{Max: size})
	draw.CatmullRom.Scale(out, out.Bounds(), img, img.Bounds(), draw.Src, nil)
	return out
}

// averaged draws the picture, moved by a distance, on a white canvas and averages square blocks of it, as many pixels wide
// as are needed for a result whose sides are at most most. Apart from the result it needs memory for a part of a row. The
// result of an *image.CMYK has its four channels unchanged. Error: domain.ErrUnavailable.
func averaged(ctx context.Context, img image.Image, by, canvas image.Point, most int) (*image.RGBA, error) {
	op := draw.Over
	if cmyk, ok := img.(*image.CMYK); ok {
		img = &image.RGBA{
			Pix:    cmyk.Pix,
			Stride: cmyk.Stride,
			Rect:   cmyk.Rect,
		}
		op = draw.Src
	}

	block := (max(canvas.X, canvas.Y) + most - 1) / most
	out := image.NewRGBA(image.Rect(0, 0, (canvas.X+block-1)/block, (canvas.Y+block-1)/block))
	sums := make([]uint64, 4*out.Rect.Dx())
	part := image.NewRGBA(image.Rect(0, 0, min(canvas.X, block*max(1, 4096/block)), 1))

	for y := range canvas.Y {
		if ctx.Err() != nil {
			return nil, unavailable(ctx)
		}

		for x := 0; x < canvas.X; x += part.Rect.Dx() {
			draw.Draw(part, part.Rect, image.White, image.Point{}, draw.Src)
			draw.Draw(part, img.Bounds().Add(by).Sub(image.Pt(x, y)), img, img.Bounds().Min, op)
			add(sums[x/block*4:], part.Pix[:4*min(part.Rect.Dx(), canvas.X-x)], block)
		}

		rows := y%block + 1
		if rows < block && y < canvas.Y-1 {
			continue
		}

		for i, sum := range sums {
			n := uint64(rows * min(block, canvas.X-i/4*block))     //nolint:gosec // positive
			out.Pix[y/block*out.Stride+i] = uint8((sum + n/2) / n) //nolint:gosec // an average of bytes
		}

		clear(sums)
	}

	return out, nil
}

func add(sums []uint64, row []byte, block int) {
	for len(row) > 0 {
		n := min(4*block, len(row))
		for i := 0; i < n; i += 4 {
			sums[0] += uint64(row[i])
			sums[1] += uint64(row[i+1])
			sums[2] += uint64(row[i+2])
			sums[3] += uint64(row[i+3])
		}

		row = row[n:]
		sums = sums[4:]
	}
}

package picture

import (
	"encoding/binary"
	"image"
)

// orientation returns the EXIF orientation in a TIFF header, 1 (upright) to 8. Phones store a picture as the sensor has it,
// and the way up in this number. Any picture without a readable one counts as upright.
func orientation(tiff []byte) int {
	if len(tiff) < 8 {
		return 1
	}

	var order binary.ByteOrder = binary.BigEndian
	if tiff[0] == 'I' {
		order = binary.LittleEndian
	}

	start := int64(order.Uint32(tiff[4:]))
	if start+2 > int64(len(tiff)) {
		return 1
	}

	entries := tiff[start+2:]
	for range order.Uint16(tiff[start:]) {
		if len(entries) < 12 {
			break
		}

		const tagOrientation, kindShort = 0x0112, 3
		if order.Uint16(entries) == tagOrientation {
			value := int(order.Uint16(entries[8:]))
			if order.Uint16(entries[2:]) == kindShort && value >= 1 && value <= 8 {
				return value
			}
			return 1
		}
		entries = entries[12:]
	}

	return 1
}

func upright(img *image.RGBA, orientation int) *image.RGBA {
	if orientation <= 1 {
		return img
	}

	size := img.Bounds().Size()
	w := size.X
	h := size.Y

	// source returns the point of the stored picture that is shown at (x, y).
	source := [...]func(x, y int) (int, int){
		2: func(x, y int) (int, int) { return w - 1 - x, y },
		3: func(x, y int) (int, int) { return w - 1 - x, h - 1 - y },
		4: func(x, y int) (int, int) { return x, h - 1 - y },
		5: func(x, y int) (int, int) { return y, x },
		6: func(x, y int) (int, int) { return y, h - 1 - x },
		7: func(x, y int) (int, int) { return w - 1 - y, h - 1 - x },
		8: func(x, y int) (int, int) { return w - 1 - y, x },
	}[orientation]

	if orientation >= 5 {
		size.X = h
		size.Y = w
	}

	out := image.NewRGBA(image.Rectangle{Max: size})
	for y := range size.Y {
		for x := range size.X {
			sx, sy := source(x, y)
			out.SetRGBA(x, y, img.RGBAAt(sx, sy))
		}
	}

	return out
}

package browser

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// upload chooses a file in the picture field of the form of a new sale. content is an expression of its bytes, or of a promise of
// them.
func (b *tab) upload(name, kind, content string) {
	b.t.Helper()
	b.until(`document.querySelector('form[data-form=make] input[type=file]')`)
	_ = evaluate[bool](b, fmt.Sprintf(`(async () => {
		const chosen = new DataTransfer();
		chosen.items.add(new File([await %s], %q, { type: %q }));
		const input = document.querySelector('form[data-form=make] input[type=file]');
		input.files = chosen.files;
		return input.dispatchEvent(new Event("change"));
	})()`, content, name, kind))
}

// uploadPhoto chooses a picture of two halves, red and blue. Noise in it makes the file large.
func (b *tab) uploadPhoto(name, kind string, width, height int, noise float64) {
	b.t.Helper()
	b.upload(name, kind, fmt.Sprintf(`(() => {
		const canvas = new OffscreenCanvas(%d, %d);
		const brush = canvas.getContext("2d");
		brush.fillStyle = "#f00";
		brush.fillRect(0, 0, canvas.width / 2, canvas.height);
		brush.fillStyle = "#00f";
		brush.fillRect(canvas.width / 2, 0, canvas.width / 2, canvas.height);
		const high = Math.round(canvas.height * %g);
		if (high > 0) {
			const noise = brush.createImageData(canvas.width, high);
			const bytes = new Uint32Array(noise.data.buffer);
			for (let i = 0, n = 1; i < bytes.length; i++) bytes[i] = 0xff000000 | (n = (n * 1664525 + 1013904223) >>> 0) >>> 8;
			brush.putImageData(noise, 0, 0);
		}
		return canvas.convertToBlob({ type: %q, quality: 0.95 });
	})()`, width, height, noise, kind))
}

// sideways returns pictures of 2000 × 1000 pixels, half red and half blue, whose EXIF metadata says that the left side is up.
func sideways(t *testing.T) map[string][]byte {
	t.Helper()
	const tiff = "MM\x00\x2a\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00"
	img := image.NewRGBA(image.Rect(0, 0, 2000, 1000))
	draw.Draw(img, img.Rect, image.NewUniform(color.RGBA{R: 255, A: 255}), image.Point{}, draw.Src)
	draw.Draw(img, image.Rect(1000, 0, 2000, 1000), image.NewUniform(color.RGBA{B: 255, A: 255}), image.Point{}, draw.Src)

	var photo, drawing bytes.Buffer
	require.NoError(t, jpeg.Encode(&photo, img, nil))
	segment := "\xff\xe1\x00" + string(rune(2+6+len(tiff))) + "Exif\x00\x00" + tiff
	require.NoError(t, png.Encode(&drawing, img))
	const header = 8 + 25
	chunk := []byte("eXIf" + tiff)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk))
	chunk = append(binary.BigEndian.AppendUint32(nil, uint32(len(tiff))), chunk...)

	lossless, err := base64.StdEncoding.DecodeString("L8/H+QAPEPO///MfDsikbebf9BT0TkT/J+Dta+c//uM//uM//uM//uM//uM//uM//uM//uM//uM//uM/" +
		"/uM//uM//uM//uM//uM//uM//uM//uM//uM//uM//uM//uM//uM//uM//uM//uM//uM//uM//uM//hM9")
	require.NoError(t, err)
	extended := "WEBPVP8X\x0a\x00\x00\x00\x08\x00\x00\x00\xcf\x07\x00\xe7\x03\x00"
	for _, part := range []string{"VP8L" + string(lossless), "EXIF" + tiff} {
		extended += part[:4] + string(binary.LittleEndian.AppendUint32(nil, uint32(len(part)-4))) + part[4:]
		extended += strings.Repeat("\x00", len(part)%2)
	}
	return map[string][]byte{
		"image/jpeg": slices.Concat(photo.Bytes()[:2], []byte(segment), photo.Bytes()[2:]),
		"image/png":  slices.Concat(drawing.Bytes()[:header], chunk, drawing.Bytes()[header:]),
		"image/webp": append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(extended))), extended...),
	}
}

// TestConsolePictures uploads the photographs of phones through a proxy that accepts 1 MB, as nginx does unless told
// otherwise.
// Source: nextcloud/helm#485, go-skynet/helm-charts#47, nginx/kubernetes-ingress#21.
func TestConsolePictures(t *testing.T) {
	env.Full(t)
	t.Parallel()
	browser := startBrowser(t)
	p := rig.EmbeddedStack(t).WithAdmins().Serve(t).Shop(t)

	f := startFront(t, p.URL)
	f.MaxBody = 1 << 20
	v := visit(t, browser, f.URL, "en")
	v.enter("/console/new", rig.AdminPhones[0])
	shows := func(width, height int) { // or less of both, which the server chooses for noise
		v.until(`((image) => image.naturalHeight > 0 && image.naturalWidth <= %d && image.naturalHeight <= %d &&
			Math.abs(image.naturalWidth / image.naturalHeight - %[1]d / %[2]d) < 0.01)(document.querySelector(".picture img"))`, width, height)
		v.until(`document.querySelector(%q).innerText === ""`, fieldError("make", "image_id"))
	}
	v.uploadPhoto("photo.jpg", "image/jpeg", 8064, 6048, 0)
	shows(1280, 960)
	v.uploadPhoto("photo.jpg", "image/jpeg", 2000, 2200, 1) // 5 MB
	shows(1164, 1280)
	v.uploadPhoto("photo.jpg", "image/png", 1000, 500, 0.9) // 1.4 MB, of few pixels
	shows(1000, 500)
	v.uploadPhoto("photo.jpg", "image/webp", 640, 360, 0)
	shows(640, 360)

	// The copies that the page sends stand upright, as the server's do.
	for kind, file := range sideways(t) {
		v.upload("sideways", kind, fmt.Sprintf(`Uint8Array.from(atob(%q), (c) => c.charCodeAt(0))`, base64.StdEncoding.EncodeToString(file)))
		t.Log(kind)
		shows(640, 1280)
		v.uploadPhoto("photo.jpg", "image/webp", 640, 360, 0)
		shows(640, 360)
	}

	// A proxy that accepts less than the page sends is named, and the picture stays.
	strictFront := startFront(t, p.URL)
	strictFront.MaxBody = 10 << 10
	strict := visit(t, browser, strictFront.URL, "en")
	strict.enter("/console/new", rig.AdminPhones[1])
	strict.uploadPhoto("photo.jpg", "image/jpeg", 2000, 2200, 1)
	strict.reads(fieldError("make", "image_id"), "A proxy in front of the server does not accept a file of this size")
}

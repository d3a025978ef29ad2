package handler_test

import (
	"bytes"
	"image"
	"image/jpeg"
	"image/png"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/test/testenv"
)

const imagesPath = "/api/v1/admin/images"

// noImage is the id of a picture that does not exist.
var noImage = strings.Repeat("0", 64)

type imageView struct {
	ID, URL       string
	Width, Height int
}

// form returns a multipart body with the parts, each of which has a file name, and its content type.
func form(t testing.TB, files ...string) (body, kind string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i, file := range files {
		part, err := w.CreateFormFile([]string{"image", "second"}[i], "picture.png")
		require.NoError(t, err)
		_, err = part.Write([]byte(file))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.String(), w.FormDataContentType()
}

// upload sends a picture.
func (c client) upload(file string) answer {
	c.t.Helper()
	body, kind := form(c.t, file)
	return c.with("Content-Type", kind).post(imagesPath, body)
}

// aPicture returns a PNG file of the width.
func aPicture(t testing.TB, width int) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, width, 20))))
	return b.String()
}

func TestPictureOfVoucher(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	operator := e.staff("13900000002", domain.RoleOperator)
	a := operator.upload(aPicture(t, 30)).want(http.StatusCreated)
	stored := decode[imageView](a)
	require.Equal(t, []any{"/api/v1/images/" + stored.ID, 30, 20}, []any{stored.URL, stored.Width, stored.Height})
	require.Equal(t, stored.URL, a.header.Get("Location"))
	require.Equal(t, stored, decode[imageView](operator.upload(aPicture(t, 30)).want(http.StatusCreated)), "the same upload is the same picture")

	for range 2 { // the second one from memory
		shown := e.guest().get(stored.URL).want(http.StatusOK)
		require.Equal(t, "image/jpeg", shown.header.Get("Content-Type"))
		size, err := jpeg.DecodeConfig(bytes.NewReader(shown.body))
		require.NoError(t, err)
		require.Equal(t, 30, size.Width)
	}
	e.guest().get("/api/v1/images/"+noImage).problem(http.StatusNotFound, "not_found")
	e.guest().bad().get("/api/v1/images/x").problem(http.StatusNotFound, "not_found")

	v := e.sale(1, func(b map[string]any) { b["image_id"] = stored.ID })
	picture := func(path string) string {
		return decode[struct {
			ImageURL string `json:"image_url"`
		}](operator.get(path).want(http.StatusOK)).ImageURL
	}
	require.Equal(t, stored.URL, picture(v.path()))
	require.Contains(t, string(e.guest().get(vouchersPath).want(http.StatusOK).body), `"image_url":"`+stored.URL+`"`)
	operator.patch(v.adminPath(), map[string]string{"title": "t"}).want(http.StatusOK)
	require.Equal(t, stored.URL, picture(v.path()), "a change of another field keeps the picture")
	require.Equal(t, []string{"image_id"}, operator.patch(v.adminPath(), map[string]string{"image_id": noImage}).problem(http.StatusBadRequest, "invalid_request").fields())
	operator.patch(v.adminPath(), map[string]string{"image_id": ""}).want(http.StatusOK)
	require.Empty(t, picture(v.path()))
	body := e.saleBody(1)
	body["image_id"] = noImage
	require.Equal(t, []string{"image_id"}, operator.post("/api/v1/admin/vouchers", body).problem(http.StatusBadRequest, "invalid_request").fields())
}

// TestHostileUploads: what is not a small picture is refused, and a file that is more than a picture loses the rest.
func TestHostileUploads(t *testing.T) {
	t.Parallel()
	testenv.Full(t)
	e := newEnv(t)
	operator := e.staff("13900000002", domain.RoleOperator)
	bomb := "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\xea\x60\x00\x00\xea\x60\x08\x06\x00\x00\x00\x1f\x21\xc8\xba" // 60000 × 60000
	for name, file := range map[string]string{
		"an SVG with a script": `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script></svg>`,
		"a page":               "<!doctype html><script>alert(1)</script>",
		"a bomb":               bomb,
		"20 MB":                aPicture(t, 3) + strings.Repeat("x", 20<<20),
		"nothing":              "",
	} {
		p := operator.upload(file).problem(http.StatusBadRequest, "invalid_request")
		require.Equal(t, []string{"image"}, p.fields(), name)
	}
	body, kind := form(t, aPicture(t, 3), "second")
	operator.bad().with("Content-Type", kind).post(imagesPath, body).problem(http.StatusBadRequest, "invalid_request")
	operator.bad().with("Content-Type", kind).post(imagesPath, body[:len(body)/2]).problem(http.StatusBadRequest, "invalid_request")
	empty, kind := form(t)
	operator.bad().with("Content-Type", kind).post(imagesPath, empty).problem(http.StatusBadRequest, "invalid_request")
	operator.bad().post(imagesPath, "{}").problem(http.StatusBadRequest, "invalid_request")
	require.Empty(t, e.dumpOf("images"))

	stored := decode[imageView](operator.upload(aPicture(t, 3) + "<html><script>alert(1)</script>").want(http.StatusCreated))
	shown := e.guest().get(stored.URL).want(http.StatusOK) // every answer has nosniff and a policy without scripts: checkEveryAnswer
	_, err := jpeg.Decode(bytes.NewReader(shown.body))
	require.NoError(t, err)
	require.NotContains(t, string(shown.body), "script")
}

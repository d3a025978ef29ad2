package handler

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/domain"
	"seckill/internal/kit/picture"
)

const (
	// uploadTimeout bounds an upload and its conversion. It is longer than other requests, because phones upload slowly.
	uploadTimeout = 30 * time.Second
	// maxUploads bounds the concurrent uploads of a server, each of which is in memory.
	maxUploads = 4
	// maxUploadBody bounds the body of an upload: the picture and the headers of its part.
	maxUploadBody = picture.MaxUpload + 4<<10
)

// ImageURL returns the path of a picture.
func ImageURL(id string) string { return "/api/v1/images/" + id }

// upload stores a picture and returns its id. It needs no Idempotency-Key: the same upload is the same picture.
func (a *api) uploadImage(c *gin.Context) error {
	deadline := time.Now().Add(uploadTimeout)
	conn := http.NewResponseController(c.Writer)

	// Without them, the shorter limits of the server hold.
	_ = conn.SetReadDeadline(deadline)
	_ = conn.SetWriteDeadline(deadline.Add(time.Second))

	file, err := uploadedFile(c)
	if err != nil {
		return err
	}

	p, err := a.Pictures.Add(c.Request.Context(), file)
	if err != nil {
		return err
	}

	c.Header("Location", ImageURL(p.ID))
	return writeJSON(c, http.StatusCreated, struct {
		ID     string `json:"id"`
		URL    string `json:"url"`
		Width  int    `json:"width"`
		Height int    `json:"height"`
	}{p.ID, ImageURL(p.ID), p.Width, p.Height})
}

func uploadedFile(c *gin.Context) ([]byte, error) {
	tooLarge := domain.Invalid("image", "must have at most %d MB", picture.MaxUpload>>20)
	if c.Request.ContentLength > maxUploadBody {
		return nil, tooLarge
	}

	c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, maxUploadBody)
	err := c.Request.ParseMultipartForm(maxUploadBody)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge
	}
	if err != nil {
		return nil, domain.Invalid("body", "must be complete multipart/form-data with one file, named image")
	}

	form := c.Request.MultipartForm
	files := slices.Concat(slices.Collect(maps.Values(form.File))...)
	if len(files) != 1 || len(form.Value) > 0 {
		return nil, domain.Invalid("body", "must have one file, named image, and nothing else")
	}

	file, err := files[0].Open()
	if err != nil {
		return nil, err
	}
	defer file.Close()

	content := make([]byte, files[0].Size)
	_, err = io.ReadFull(file, content)
	return content, err
}

func (a *api) showImage(c *gin.Context) error {
	id := c.Param("hash")
	p := a.Pictures.Cached(id)
	if p == nil {
		err := a.limits.visit(c)
		if err == nil {
			p, err = a.Pictures.Get(c.Request.Context(), id)
		}

		if err != nil {
			return err
		}
	}

	c.Writer.Header()["Cache-Control"] = immutable
	writeBody(c, http.StatusOK, imageType, p.JPEG)
	return nil
}

var (
	immutable = []string{"public, max-age=31536000, immutable"}
	imageType = []string{"image/jpeg"}
)

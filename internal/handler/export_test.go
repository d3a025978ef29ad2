package handler

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// Router returns the routes of the result of New.
func Router(h http.Handler) *gin.Engine { return h.(server).router }

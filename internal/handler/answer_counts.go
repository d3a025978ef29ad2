package handler

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/ops/salestats"
)

// outcomeKey is the context key under which classify stores the code of an error.
const outcomeKey = "outcome"

// countAnswers returns a middleware that counts the answers to buyers by voucher and outcome for the live statistics.
// It must be the first of its route, so that the measured time covers the whole request.
func countAnswers(counters *salestats.Counters) gin.HandlerFunc {
	return func(c *gin.Context) {
		start := time.Now()
		c.Next()
		if id, ok := parseID(c.Param("id")); ok && c.Writer.Status() != statusClientGone {
			counters.CountAnswer(id, answerOf(c), time.Since(start))
		}
	}
}

func answerOf(c *gin.Context) string {
	if c.Writer.Header()[replayedHeader] != nil {
		return salestats.OutcomeReplayed
	}
	if code := c.GetString(outcomeKey); code != "" {
		return code
	}

	// Not from classify: a panic.
	if c.Writer.Status() >= http.StatusBadRequest {
		return "internal"
	}
	return salestats.OutcomeOK
}

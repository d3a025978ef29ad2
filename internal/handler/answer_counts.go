package handler

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/salestats"
)

// outcomeKey is the context key under which classify stores the outcome of an error.
const outcomeKey = "outcome"

// countAnswers returns a middleware that counts the answers to buyers by voucher and outcome for the live statistics.
// It must be the first of its route, so that the measured time covers the whole request. pulse may be nil.
func countAnswers(pulse *salestats.Pulse) gin.HandlerFunc {
	if pulse == nil {
		return func(*gin.Context) {}
	}
	return func(c *gin.Context) {
		start := time.Now()
		c.Next()
		if id, ok := parseID(c.Param("id")); ok && c.Writer.Status() != statusClientGone {
			pulse.Answered(id, answerOf(c), time.Since(start))
		}
	}
}

// replayedAnswer is the outcome of a replay, which is not another order.
var replayedAnswer = salestats.PulseAnswerOf("replayed")

func answerOf(c *gin.Context) salestats.PulseAnswer {
	if c.Writer.Header()[replayedHeader] != nil {
		return replayedAnswer
	}
	if a, ok := c.Get(outcomeKey); ok {
		return a.(salestats.PulseAnswer)
	}
	if c.Writer.Status() >= http.StatusBadRequest { // not from classify: a panic
		return salestats.AnswerInternal
	}
	return 0
}

package handler

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/salestats"
)

// outcomeKey is where judge leaves the number of the answer.
const outcomeKey = "outcome"

// tally counts the answers to buyers by voucher, for those who watch a sale. It is the first of the route, so that the time
// to answer is the whole of it. pulse may be nil.
func tally(pulse *salestats.Pulse) gin.HandlerFunc {
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

// replayedAnswer is that of a request whose key was answered before: it is no further order.
var replayedAnswer = salestats.PulseAnswerOf("replayed")

func answerOf(c *gin.Context) salestats.PulseAnswer {
	if c.Writer.Header()[replayedHeader] != nil {
		return replayedAnswer
	}
	if a, ok := c.Get(outcomeKey); ok {
		return a.(salestats.PulseAnswer)
	}
	if c.Writer.Status() >= http.StatusBadRequest { // nothing that was judged
		return salestats.AnswerInternal
	}
	return 0
}

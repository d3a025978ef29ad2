package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// logPatience is how long a line may take to be written. A busy machine needs some of it.
const logPatience = time.Second

// patientWriter writes lines to a log that may stand still, such as the pipe of a collector that hangs. Once a line has
// taken longer than logPatience, the next ones are lost until it is written: otherwise every request with something to
// log would wait, and the end of the program too. Lines are also lost while its disk is full. It is safe for concurrent use.
type patientWriter struct {
	out io.Writer

	mu sync.Mutex
	// Receives how many lines are lost when the line that takes so long is written, or fails; nil if there is none.
	pending chan int
	lost    int
}

// Write implements io.Writer. It fails for no line: there is nowhere to report that.
func (p *patientWriter) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.pending != nil {
		select {
		case lost := <-p.pending:
			p.pending = nil
			p.lost += lost
		default:
			p.lost++
			return len(line), nil
		}
	}

	var text []byte
	unwritten := p.lost + 1
	if p.lost > 0 {
		now := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
		text = fmt.Appendf(text, "time=%s level=WARN msg=\"the log stood still\" lost_lines=%d\n", now, p.lost)
		p.lost = 0
	}
	// The caller uses its buffer again.
	text = append(text, line...)

	written := make(chan int, 1)
	go func() {
		if _, err := p.out.Write(text); err == nil {
			unwritten = 0
		}
		written <- unwritten
	}()

	select {
	case p.lost = <-written:
	case <-time.After(logPatience):
		p.pending = written
	}
	return len(line), nil
}

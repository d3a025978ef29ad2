package admission

import (
	"fmt"
	"strconv"
	"time"

	"seckill/internal/service"
)

// fields reads numbers out of what Redis holds as text, and remembers the first that is none.
type fields struct {
	values map[string]string
	err    error
}

func (f *fields) number(name string) int64 {
	n, err := strconv.ParseInt(f.values[name], 10, 64)
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("admission: field %s: %w", name, err)
	}
	return n
}

func (f *fields) millis(name string) time.Time { return time.UnixMilli(f.number(name)).UTC() }

// admission reads what entries and tickets have in common.
func (f *fields) admission() service.Admission {
	return service.Admission{
		VoucherID: f.number("voucher"), Amount: f.number("amount"), Limit: int(f.number("limit")), At: f.millis("at"),
	}
}

// Parse reads the fields of a stream entry.
func (g *Gate) Parse(values map[string]any) (service.Admission, error) { return parseEntry(values) }

func parseEntry(values map[string]any) (service.Admission, error) {
	f := &fields{values: texts(values)}
	a := f.admission()
	a.OrderID, a.UserID, a.ReplyTo = f.number("order"), f.number("user"), f.values["reply"]
	return a, f.err
}

// texts is the client's map as what it is.
func texts(values map[string]any) map[string]string {
	m := make(map[string]string, len(values))
	for name, v := range values {
		m[name], _ = v.(string)
	}
	return m
}

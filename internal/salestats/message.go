package salestats

import "encoding/json"

// message contains the counts of one process since its last message.
type message struct {
	Instance string       `json:"i"`
	Sales    []saleCounts `json:"v,omitempty"`
}

type saleCounts struct {
	VoucherID int64             `json:"id"`
	Answers   map[string]uint64 `json:"a,omitempty"`
	Settled   map[string]uint64 `json:"s,omitempty"`
	Batches   [2]uint64         `json:"b"`           // transactions, orders
	Latency   [][2]uint64       `json:"l,omitempty"` // bucket, count
}

func (m *message) encode() []byte {
	text, err := json.Marshal(m)
	if err != nil { // cannot happen for this type
		return nil
	}
	return text
}

func parseMessage(text []byte) (m message, ok bool) {
	err := json.Unmarshal(text, &m)
	return m, err == nil && m.Instance != ""
}

func newSaleCounts(id int64, c *counts) saleCounts {
	s := saleCounts{
		VoucherID: id, Answers: byName(outcomeNames[:], c.answers[:]), Settled: byName(settledNames[:], c.settled[:]),
		Batches: [2]uint64{c.batches, c.rows},
	}
	for i, count := range c.latency {
		if count > 0 {
			s.Latency = append(s.Latency, [2]uint64{uint64(i), count})
		}
	}
	return s
}

// counts converts received counts. Names and buckets that this version does not have are ignored.
func (s *saleCounts) counts() (c counts) {
	for i, name := range outcomeNames {
		c.answers[i] = s.Answers[name]
	}
	for i, name := range settledNames {
		c.settled[i] = s.Settled[name]
	}
	c.batches, c.rows = s.Batches[0], s.Batches[1]
	for _, l := range s.Latency {
		if l[0] < latencyBuckets {
			c.latency[l[0]] += l[1]
		}
	}
	return c
}

// byName returns the positive counts.
func byName(names []string, counts []uint64) map[string]uint64 {
	m := map[string]uint64{}
	for i, n := range counts {
		if n > 0 {
			m[names[i]] = n
		}
	}
	return m
}

package admission

import (
	"fmt"
	"strconv"

	"seckill/internal/domain"
)

// Parse parses an entry of one of the Streams. It returns an error if it is malformed; the gate writes no such entry.
func (g *Gate) Parse(stream, entry string, fields map[string]any) (domain.StreamEntry, error) {
	text, _ := fields["rows"].(string)
	as, err := parseRows(text)
	if err != nil {
		return domain.StreamEntry{}, err
	}

	// An earlier version wrote no generation.
	if text, stamped := fields["generation"].(string); stamped {
		generation, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return domain.StreamEntry{}, fmt.Errorf("admission: generation: %w", err)
		}
		for i := range as {
			as[i].Generation = generation
		}
	}

	p := domain.StreamEntry{
		Stream:     stream,
		Entry:      entry,
		Admissions: as,
	}
	if tries, ok := fields["tries"].(string); ok {
		if p.Tries, err = strconv.ParseInt(tries, 10, 64); err != nil {
			return domain.StreamEntry{}, fmt.Errorf("admission: tries: %w", err)
		}
	}

	return p, nil
}

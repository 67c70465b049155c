package agent

import (
	"slices"

	"hortus.dev/api"
)

// steps keeps what a pipeline meant to do and what it finished, for the receipt
// of a canceled task.
type steps struct {
	planned   []string
	completed []string
}

func (s *steps) todo(names ...string) { s.planned = append(s.planned, names...) }

func (s *steps) done(name string) { s.completed = append(s.completed, name) }

func (s *steps) receipt() api.Receipt {
	r := api.Receipt{Completed: append([]string{}, s.completed...), Skipped: []string{}}
	for _, name := range s.planned {
		if !slices.Contains(s.completed, name) {
			r.Skipped = append(r.Skipped, name)
		}
	}
	return r
}

package loop

import (
	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
)

// History is what the next request would hold.
func (l *Loop) History() []model.Message { return l.history }

// Usage is that of all Runs.
func (l *Loop) Usage() api.Usage { return l.used }

// Steps counts the answers of all Runs.
func (l *Loop) Steps() int { return l.steps }

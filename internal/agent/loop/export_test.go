package loop

import "hortus.dev/internal/agent/model"

// History is what the next request would hold.
func (l *Loop) History() []model.Message { return l.history }

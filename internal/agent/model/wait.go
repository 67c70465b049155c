package model

import (
	"errors"
	"time"
)

// RetryAfter finds how long a server asked its callers to wait before the next
// try. The second result is false when it asked for nothing.
func RetryAfter(err error) (time.Duration, bool) {
	var w *Wait
	if !errors.As(err, &w) {
		return 0, false
	}
	return w.For, true
}

// Wait is the cause of an error whose server said when to come back. It adds
// nothing to the text.
type Wait struct{ For time.Duration }

// Error is empty: the error that has a Wait as its cause says it all.
func (*Wait) Error() string { return "" }

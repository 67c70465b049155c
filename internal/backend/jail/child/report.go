package child

import (
	"encoding/json"
	"errors"
	"syscall"

	"hortus.dev/internal/guest/birth"
)

// StepError is a step of the start that failed inside.
type StepError struct {
	Step  string
	Text  string
	Errno syscall.Errno
}

func (e *StepError) Error() string { return e.Step + ": " + e.Text }

func (e *StepError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

// maxText is the maximum length of a text from inside that is shown to people, in bytes.
const maxText = 300

// Reported decodes a birth.Report. It returns nil if the report says ready.
func Reported(b []byte) error {
	var r birth.Report
	if err := json.Unmarshal(b, &r); err != nil {
		return errors.New("the guest's report is malformed")
	}
	if r.Ready {
		return nil
	}
	return &StepError{Step: Sanitize(r.Stage), Text: Sanitize(r.Error), Errno: syscall.Errno(r.Errno)}
}

// Sanitize truncates a text from inside and replaces what is not printable ASCII.
func Sanitize(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	b := []byte(s)
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}

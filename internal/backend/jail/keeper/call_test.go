package keeper

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// counted counts what is read of a hostile answer.
type counted struct {
	r io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// endless repeats a text for ever.
type endless string

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], e)
	}
	return n, nil
}

// TestAnsweredIsBounded has a kernel that never ends its answer.
func TestAnsweredIsBounded(t *testing.T) {
	for _, c := range []struct{ name, head, rest string }{
		{"spaces", "", " "}, {"a text", `{"err":"`, "x"}, {"depth", "", "["}, {"an unknown field", `{"x":[`, "0,"},
		{"empty objects", `{"x":[`, "{},"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &counted{r: io.MultiReader(strings.NewReader(c.head), endless(c.rest))}
			if err := answered(r, nil); err == nil {
				t.Error("it was taken for a success")
			}
			if r.n > maxAnswer {
				t.Errorf("%d bytes were read; want at most %d", r.n, maxAnswer)
			}
		})
	}
}

// FuzzAnswered reads what a kernel answers to a call.
func FuzzAnswered(f *testing.F) {
	for _, s := range []string{
		`{"success":true}`, `{"success":false,"err":"no such container","result":{}}`, `{"success":1}`, `{"err":"\n\u001b[2J"}`,
		``, `null`, `{}`, `{"success":true`, `[{"success":true}]`, "\x00", `{"success":true,"Success":false}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := answered(bytes.NewReader(b), nil)
		if err == nil {
			if !bytes.Contains(bytes.ToLower(b), []byte("true")) {
				t.Errorf("%q was taken for a success", b)
			}
			return
		}
		if said := sanitize(err.Error()); said == "" || len(said) > maxError || strings.ContainsFunc(said, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("what is passed on is %q", said)
		}
	})
}

package runner

import (
	"io"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// events plays a command.
type events []*envd.ProcessEvent

func (e *events) Next() (*envd.ProcessEvent, error) {
	if len(*e) == 0 {
		return nil, io.EOF
	}
	next := (*e)[0]
	*e = (*e)[1:]
	return next, nil
}

func TestCollect(t *testing.T) {
	for _, c := range []struct {
		written []string
		max     int
		want    string
		cut     bool
	}{
		{nil, 4, "", false},
		{[]string{"ab", "cd"}, 4, "abcd", false},
		{[]string{"ab", "cd", "e"}, 4, "abcd", true},
		{[]string{"aé"}, 2, "a", true},
		{[]string{"aé", "b"}, 3, "aé", true},
		{[]string{"a\xff"}, 4, "a\uFFFD", false},
	} {
		var all events
		var total int64
		for _, w := range c.written {
			all = append(all, &envd.ProcessEvent{Data: &envd.DataEvent{Stdout: []byte(w)}})
			total += int64(len(w))
		}
		out, errOut := Text{Max: c.max}, Text{}
		if err := Collect(&all, &out, &errOut); err != nil || out.String() != c.want || out.Truncated() != c.cut || out.Total() != total {
			t.Errorf("%q: %q, truncated %v, %d bytes, %v", c.written, out.String(), out.Truncated(), out.Total(), err)
		}
	}
	if err := Collect(failing{}, &Text{}, &Text{}); api.KindOf(err) != api.KindNotFound {
		t.Errorf("an error of the guest: %v", err)
	}
}

type failing struct{}

func (failing) Next() (*envd.ProcessEvent, error) {
	return nil, &envd.Error{Code: envd.CodeNotFound, Message: "no process"}
}

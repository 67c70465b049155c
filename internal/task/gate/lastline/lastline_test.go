package lastline

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWatch: the last line of a gate is told after a second, then now and then, and only
// if it is another.
func TestWatch(t *testing.T) {
	now := time.Unix(0, 0)
	var told []string
	r := New(func() time.Time { return now }, func(line string) { told = append(told, line) })
	for _, step := range []struct {
		after time.Duration
		text  string
	}{
		{0, "early\n"}, {900 * time.Millisecond, "a"}, {200 * time.Millisecond, "b\n\n"}, {time.Second, "too soon\n"},
		{time.Second, "next\r\n"}, {3 * time.Second, "next\n"}, {3 * time.Second, "half a li"}, {3 * time.Second, "ne\xff"}, {3 * time.Second, "\n \n"},
		{3 * time.Second, strings.Repeat("x", 3*maxTail)},
	} {
		now = now.Add(step.after)
		r.Take([]byte(step.text))
	}
	want := []string{"ab", "next", "half a li", "half a line", strings.Repeat("x", maxTail)}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	told = nil
	for i := range 2 * maxLines {
		now = now.Add(nextLine)
		r.Take([]byte(strings.Repeat("y", i%7+1) + "\n"))
	}
	if len(told) > maxLines || len(told) == 0 {
		t.Errorf("%d lines were told, at most %d are allowed", len(told), maxLines)
	}
}

package flags

import (
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

func TestSpan(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"7d": 7 * 24 * time.Hour, " 2w ": 14 * 24 * time.Hour, "0.5d": 12 * time.Hour, "90m": 90 * time.Minute, "1h30m": 90 * time.Minute, "36500d": longestSpan,
	} {
		var s Span
		if err := s.UnmarshalText([]byte(in)); err != nil || time.Duration(s) != want {
			t.Errorf("%q: %v %v", in, time.Duration(s), err)
		}
	}
	for _, in := range []string{"", "d", "7", "-1d", "0d", "0s", "-5m", "week", "1e300d", "NaNd", "Infw", "7dd", "999999h0m0s9999999h", "36501d"} {
		var s Span
		if err := s.UnmarshalText([]byte(in)); api.KindOf(err) != api.KindInvalid || api.HintOf(err) == "" {
			t.Errorf("%q: %v %v", in, time.Duration(s), err)
		}
	}
}

func TestAssignments(t *testing.T) {
	got, err := Assignments("--env", []string{"A=1", "B=", "C=x=y"})
	if err != nil || got["A"] != "1" || got["C"] != "x=y" || len(got) != 3 {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"A", "=1", "", "A\x00=1"} {
		if _, err := Assignments("--env", []string{bad}); err == nil || !strings.Contains(err.Error(), "--env") {
			t.Errorf("%q: %v; want an error that names the flag", bad, err)
		}
	}
}

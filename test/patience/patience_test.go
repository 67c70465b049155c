package patience

import (
	"testing"
	"time"
)

func TestFactor(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
		ok   bool
	}{{"", 1, true}, {"1", 1, true}, {"10", 10, true}, {"100", 100, true}, {"0", 0, false}, {"-1", 0, false}, {"101", 0, false}, {"2.5", 0, false}, {"x", 0, false}} {
		if got, err := factor(c.text); got != c.want || (err == nil) != c.ok {
			t.Errorf("%q: %d, %v", c.text, got, err)
		}
	}
}

func TestOf(t *testing.T) {
	t.Setenv(Variable, "7")
	if got := Of(2 * time.Second); got != 14*time.Second {
		t.Errorf("two seconds become %s", got)
	}
	t.Setenv(Variable, "seven")
	defer func() {
		if recover() == nil {
			t.Error("a malformed factor was passed over")
		}
	}()
	Of(time.Second)
}

package task

import (
	"testing"
)

func TestNear(t *testing.T) {
	for word, want := range map[string]bool{"lss": true, "l": true, "sl": true, "Ls": true, "dif": true, "dfif": true, "refactor": false, "test": false, "me": false, "upgrade": false, "applyy": true} {
		got := false
		for _, name := range []string{"ls", "show", "diff", "apply"} {
			got = got || near(word, name)
		}
		if got != want {
			t.Errorf("%s: %v", word, got)
		}
	}
}

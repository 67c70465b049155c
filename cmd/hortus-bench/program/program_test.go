package program

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// TestTalk asks a program of this host, and says what one that ends has written.
func TestTalk(t *testing.T) {
	talk, err := Start(exec.Command("sh", "-c", `read -r a; echo "[1, $a]"; read -r b; echo "no $b" >&2`))
	if err != nil {
		t.Fatal(err)
	}
	defer talk.Close()
	var got []int
	if err := talk.Call(t.Context(), 2, &got); err != nil || len(got) != 2 || got[1] != 2 {
		t.Errorf("%v, %v", got, err)
	}
	if answer, err := talk.Ask(t.Context(), "more"); err == nil || !strings.Contains(err.Error(), "no more") {
		t.Errorf("%q, %v", answer, err)
	}
}

func TestFailure(t *testing.T) {
	exit := errors.New("exit status 1")
	for _, test := range []struct{ stderr, want string }{
		{"", "does not work here: exit status 1"},
		{"warning: x\nbwrap: not permitted\n", "does not work here: bwrap: not permitted"},
		{strings.Repeat("x", 300), "does not work here: " + strings.Repeat("x", 200) + "..."},
	} {
		if got := Failure(exit, test.stderr).Error(); got != test.want {
			t.Errorf("%.30q: %q", test.stderr, got)
		}
	}
}

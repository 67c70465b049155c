package jail_test

import (
	"strings"
	"testing"
)

func TestStartRunKill(t *testing.T) {
	e := newEnv(t)
	m, _ := e.start(t)
	if got := sh(t, m, "user", "id -u; pwd; echo hello > f; cat f"); got != "1000\n/workspace\nhello" {
		t.Errorf("got %q", got)
	}
	if isRoot() {
		if got := sh(t, m, "root", "id -u; echo '#' >> /etc/passwd && tail -1 /etc/passwd; stat -c %u /etc/passwd"); got != "0\n#\n0" {
			t.Errorf("got %q", got)
		}
	}
	p := kill(t, m)
	if p.Killed < 1 || !strings.Contains(p.How, "pid namespace") {
		t.Errorf("proof %+v", p)
	}
}

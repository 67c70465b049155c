package initns

import (
	"os"
	"testing"
)

func TestMountPoints(t *testing.T) {
	own, err := mountPoints(os.Getpid())
	if err != nil || !own["proc"] || own[""] {
		t.Errorf("%d mount points, %v", len(own), err)
	}
	if got := unescape(`/a\040b\134c\012\9x\04`); got != "/a b\\c\n\\9x\\04" {
		t.Errorf("%q", got)
	}
	points := map[string]bool{"etc/hosts": true, "proc": true}
	for p, want := range map[string]bool{"etc/hosts": true, "proc/sys/kernel": true, "etc": false, "etc2/hosts": false} {
		if got := covered(points, p); got != want {
			t.Errorf("%s is covered: %t", p, got)
		}
	}
}

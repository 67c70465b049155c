package measure

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// looks prints the namespaces that a rival promises, one a line, then what must
// not be there.
const looks = `for n in user pid net mnt ipc uts; do readlink /proc/self/ns/$n; done`

// TestRivalsIsolate holds that what is compared with is really what it is called:
// each rival that is here runs its command in namespaces of its own.
func TestRivalsIsolate(t *testing.T) {
	for _, v := range rivals {
		t.Run(v.name, func(t *testing.T) {
			c := readyRival(t, v, []string{"/bin/sh", "-c", looks})
			out, err := c.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			inside := strings.Fields(out)
			if len(inside) != 6 {
				t.Fatalf("printed %q", out)
			}
			for i, n := range []string{"user", "pid", "net", "mnt", "ipc", "uts"} {
				outside, err := os.Readlink("/proc/self/ns/" + n)
				if err != nil {
					t.Fatal(err)
				}
				if inside[i] == outside && !(v.name == "docker" && n == "user") {
					t.Errorf("it shares the %s namespace with this process", n)
				}
			}
		})
	}
}

// TestRivalsFail holds that a command which fails is no sample.
func TestRivalsFail(t *testing.T) {
	for _, v := range rivals {
		t.Run(v.name, func(t *testing.T) {
			readyRival(t, v, []string{"/bin/true"})
			dir, err := rivalsDir()
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			c, err := v.ready(t.Context(), filepath.Join(dir, v.name), []string{"/bin/false"})
			if err == nil {
				c.end(t.Context())
				t.Error("a command that fails was taken for done")
			}
		})
	}
}

// readyRival prepares a rival, or skips and says why it is absent.
func readyRival(t *testing.T, v rival, argv []string) call {
	t.Helper()
	dir, err := rivalsDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("something is left of %s: %v", v.name, err)
		}
	})
	c, err := v.ready(t.Context(), filepath.Join(dir, v.name), argv)
	if err != nil {
		t.Skipf("%s: %v", v.name, err)
	}
	t.Cleanup(func() { c.end(context.Background()) })
	return c
}

func TestAbsentRival(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, v := range rivals {
		_, err := v.prepare(t.Context(), t.TempDir(), []string{"/bin/true"})
		if err == nil || err.Error() != "not installed" {
			t.Errorf("%s: %v", v.name, err)
		}
	}
}

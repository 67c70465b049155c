package jail_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/initns"
)

// countTerminals opens pseudo terminals until one is refused.
func countTerminals() int {
	for n := 0; ; n++ {
		if _, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0); err != nil {
			fmt.Println(n, err)
			return 0
		}
	}
}

// TestTakesOfTheHost looks at the limits of what all sandboxes take from one supply of
// the host's.
func TestTakesOfTheHost(t *testing.T) {
	e := newEnv(t)
	m, _ := e.start(t)
	if got, want := ask(t, m, request{Func: "terminals"}).Out, fmt.Sprint(initns.Terminals, " ", unix.ENOSPC, "\n"); got != want {
		t.Errorf("pseudo terminals: %q, want %q", got, want)
	}
	var files int
	if _, err := fmt.Sscan(sh(t, m, "user", "ulimit -Hn"), &files); err != nil || files > 16<<10 {
		t.Errorf("a process may have %d open files, %v", files, err)
	}
	for name, want := range map[string]string{"max_user_namespaces": "0", "max_fanotify_groups": "0"} {
		if got := sh(t, m, "user", "cat /proc/sys/user/"+name); got != want {
			t.Errorf("%s is %s inside, want %s", name, got, want)
		}
	}
	for name, most := range map[string]int{"instances": 128, "watches": 1 << 19} {
		var host, inside int
		if _, err := fmt.Sscan(sh(t, m, "user", fmt.Sprintf("echo $(cat /proc/sys/user/max_inotify_%[1]s /proc/sys/fs/inotify/max_user_%[1]s)", name)), &inside, &host); err != nil {
			t.Fatal(err)
		}
		if inside > most || !isRoot() && inside > host/4 {
			t.Errorf("%d of the %d inotify %s of the host's user", inside, host, name)
		}
	}
}

// TestOwnerOfNamespace asks the kernel to whom it charges a sandbox's user namespace.
func TestOwnerOfNamespace(t *testing.T) {
	if !isRoot() {
		t.Skip("an ordinary user's sandboxes are charged to that user")
	}
	e := newEnv(t)
	seen := map[int]bool{0: true}
	for range 2 {
		_, id := e.start(t)
		b, err := os.ReadFile(filepath.Join(e.dir, string(id), "pid"))
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Open("/proc/" + strings.Fields(string(b))[0] + "/ns/user")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		owner, err := unix.IoctlGetInt(int(f.Fd()), unix.NS_GET_OWNER_UID)
		if err != nil {
			t.Fatal(err)
		}
		if seen[owner] {
			t.Errorf("user %d is charged, who is root or another sandbox", owner)
		}
		seen[owner] = true
	}
}

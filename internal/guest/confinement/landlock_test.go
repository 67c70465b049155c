//go:build linux

package confinement

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// confinedName is the argument zero with which the test binary tries what Landlock must
// forbid, with Landlock or, as the control, without.
const confinedName = "test-confined"

func TestMain(m *testing.M) {
	if os.Args[0] == confinedName {
		os.Exit(confinedMain())
	}
	os.Exit(m.Run())
}

// landlockTries are attempts. want is the error with the ruleset, nil for success.
// Without the ruleset each succeeds.
var landlockTries = []struct {
	name string
	want error
	root bool // only root can show it
	run  func(dir string, parent int) error
}{
	{"make a device node", unix.EACCES, true, func(dir string, _ int) error {
		return unix.Mknod(filepath.Join(dir, "new"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
	}},
	{"ioctl of a device elsewhere", unix.EACCES, true, func(dir string, _ int) error {
		return askTerminal(filepath.Join(dir, "null"))
	}},
	{"ioctl of a device below /dev", nil, false, func(string, int) error { return askTerminal("/dev/null") }},
	{"signal the process outside", unix.EPERM, false, func(_ string, parent int) error { return unix.Tgkill(parent, parent, 0) }},
	{"look at the files of the process outside", fs.ErrPermission, false, func(_ string, parent int) error {
		_, err := os.ReadDir(fmt.Sprintf("/proc/%d/root/", parent))
		return err
	}},
	{"dial an abstract socket of the process outside", unix.EPERM, false, func(_ string, parent int) error {
		c, err := net.Dial("unix", abstractName(parent))
		if err == nil {
			c.Close()
		}
		return err
	}},
	{"signal a child", nil, false, func(string, int) error {
		c := exec.Command("sleep", "100")
		if err := c.Start(); err != nil {
			return err
		}
		defer c.Wait()
		return c.Process.Kill()
	}},
	{"rename and link across directories", nil, false, func(dir string, _ int) error {
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		return errors.Join(os.MkdirAll(a, 0o755), os.MkdirAll(b, 0o755), os.WriteFile(filepath.Join(a, "f"), nil, 0o644),
			os.Rename(filepath.Join(a, "f"), filepath.Join(b, "f")), os.Link(filepath.Join(b, "f"), filepath.Join(a, "g")))
	}},
}

func abstractName(pid int) string { return fmt.Sprintf("@hortus-landlock-%d", pid) }

// askTerminal sends a terminal ioctl to a device. It is not an error if the device is not
// a terminal.
func askTerminal(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err = unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == unix.ENOTTY {
		err = nil
	}
	return err
}

// confinedMain runs one try: test-confined NAME DIR yes|no.
func confinedMain() int {
	runtime.LockOSThread()
	parent := os.Getppid()
	if os.Args[3] == "yes" {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			fmt.Println(err)
			return 2
		}
		r, err := NewRuleset()
		if err == nil {
			err = r.Restrict()
		}
		if err != nil {
			fmt.Println(err)
			return 2
		}
	}
	for _, c := range landlockTries {
		if c.name == os.Args[1] {
			switch err := c.run(os.Args[2], parent); {
			case err == nil:
				fmt.Println("done")
			case c.want != nil && errors.Is(err, c.want):
				fmt.Println("refused")
			default:
				fmt.Println(err)
			}
		}
	}
	return 0
}

// TestLandlock tries each thing with the ruleset and, as the control, without.
func TestLandlock(t *testing.T) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	errata, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_ERRATA)
	if errno != 0 || version < landlockScope || errata&erratumSignal == 0 {
		t.Skipf("this kernel's Landlock is version %d with errata %#x (%v); the whole needs %d and the scope of signals put right", version, errata, errno, landlockScope)
	}
	l, err := net.Listen("unix", abstractName(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range landlockTries {
		t.Run(c.name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("only root can make the device node that this needs")
			}
			for confined, want := range map[string]string{"no": "done", "yes": "refused"} {
				if c.want == nil {
					want = "done"
				}
				dir := t.TempDir()
				if c.root {
					if err := unix.Mknod(filepath.Join(dir, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
						t.Skipf("device nodes cannot be made here: %v", err)
					}
				}
				cmd := exec.Command("/proc/self/exe")
				cmd.Args = []string{confinedName, c.name, dir, confined}
				out, err := cmd.CombinedOutput()
				if got := strings.TrimSpace(string(out)); err != nil || got != want {
					t.Errorf("confined %s: %q, %v; want %q", confined, got, err, want)
				}
			}
		})
	}
}

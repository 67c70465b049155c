package run

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCalls tries system calls in a process that has given them up, and the control in one that
// has not.
func TestCalls(t *testing.T) {
	const variable = "HORTUS_TEST_CALLS"
	if mode := os.Getenv(variable); mode != "" {
		if mode == "restricted" {
			if err := giveUpCalls(); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
		}
		_, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
		fmt.Println("open", err)
		_, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		fmt.Println("socket", err)
		_, _, errno := unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
		fmt.Println("getppid", errno != 0)
		fmt.Println("kill", unix.Kill(os.Getpid(), 0))
		os.Exit(0)
	}
	for mode, want := range map[string]string{
		"free":       "open <nil>\nsocket <nil>\ngetppid false\nkill <nil>\n",
		"restricted": "open operation not permitted\nsocket operation not permitted\ngetppid true\nkill operation not permitted\n",
	} {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestCalls$")
		cmd.Env = append(os.Environ(), variable+"="+mode)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%s: %q, %v; want %q", mode, out, err, want)
		}
	}
}

package reaper

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// role is what this binary is to be below TestLeft.
const role = "REAPER_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "tidy":
		grace = 100 * time.Millisecond
		os.Exit(Run(func() int { return 7 }))
	case "left", "panics":
		grace = 100 * time.Millisecond
		os.Exit(Run(func() int {
			// In a session of its own and without a parent, as a daemon's sandbox.
			cmd := exec.Command("sh", "-c", "setsid sleep 1234 >/dev/null 2>&1 & echo $!")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			out, err := cmd.Output()
			if err != nil {
				return 9
			}
			os.Stdout.Write(out)
			if os.Getenv(role) == "panics" {
				panic("as a test does at its timeout")
			}
			return 0
		}))
	}
}

func TestLeft(t *testing.T) {
	for _, c := range []struct {
		role string
		code int
		left bool
	}{{"tidy", 7, false}, {"left", 1, true}, {"panics", 2, true}} {
		t.Run(c.role, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), role+"="+c.role)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			err := cmd.Run()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if got := cmd.ProcessState.ExitCode(); got != c.code {
				t.Errorf("exit code %d, want %d: %s", got, c.code, errs.String())
			}
			if got := strings.Contains(errs.String(), "sleep"); got != c.left {
				t.Errorf("what is left is said: %v, want %v: %s", got, c.left, errs.String())
			}
			for _, p := range Processes() {
				if p.State != 'Z' && len(p.Args) == 2 && p.Args[0] == "sleep" && p.Args[1] == "1234" {
					t.Errorf("%s lives on", p)
				}
			}
		})
	}
}

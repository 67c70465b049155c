package story

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"hortus.dev/test/tier"
)

// transcript collects what was written; it can be read meanwhile.
type transcript struct {
	mu   sync.Mutex
	text []byte
}

func newTranscript() *transcript { return &transcript{} }

func (w *transcript) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	return len(p), nil
}

func (w *transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.text)
}

// screen is a person's terminal with hortus in its foreground.
type screen struct {
	*started
	keys *os.File // the terminal's other side
	tty  *os.File
}

// onTerminal starts hortus with a terminal of its own.
func (g *garden) onTerminal(env []string, args ...string) *screen {
	g.t.Helper()
	keys, tty, err := pty.Open()
	if err != nil {
		g.t.Fatal(err)
	}
	// The library leaves the file blocking; closing such a one waits for its
	// reader, and nobody would hang up.
	if err := syscall.SetNonblock(int(keys.Fd()), true); err != nil {
		g.t.Fatal(err)
	}
	fd, err := unix.FcntlInt(keys.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err == nil {
		err = errors.Join(keys.Close(), syscall.SetNonblock(fd, true))
	}
	if err != nil {
		g.t.Fatal(err)
	}
	keys = os.NewFile(uintptr(fd), "terminal")
	s := &screen{keys: keys, tty: tty, started: &started{t: g.t, output: newTranscript(), done: make(chan struct{})}}
	s.resize(30, 100)
	s.cmd = g.command(g.t.Context(), args...)
	s.cmd.Env = append(append(s.cmd.Env, "TERM=xterm-256color"), env...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = tty, tty, tty
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := keys.Read(buf)
			_, _ = s.output.Write(buf[:n])
			if err != nil {
				return
			}
		}
	})
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait()
		s.code = s.cmd.ProcessState.ExitCode()
	}()
	g.t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.done
		tty.Close()
		keys.Close()
		reading.Wait()
	})
	return s
}

// resize changes the terminal's size.
func (s *screen) resize(rows, cols uint16) {
	s.t.Helper()
	raw, err := s.keys.SyscallConn()
	if err == nil {
		err = errors.Join(raw.Control(func(fd uintptr) {
			err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
		}), err)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// types presses keys.
func (s *screen) types(keys string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// presses presses keys until the answer is there: again after a while, as a person
// does, since a shell that is starting a program may miss a signal.
func (s *screen) presses(keys, answer string) {
	s.t.Helper()
	var last time.Time
	until(s.t, fmt.Sprintf("the terminal answers %q to %q", answer, keys), func() string {
		out := s.output.String()
		if strings.Contains(out, answer) {
			return ""
		}
		if time.Since(last) > 3*time.Second {
			last = time.Now()
			s.types(keys)
		}
		return out
	})
}

// modes reads the terminal's settings.
func (s *screen) modes() unix.Termios {
	s.t.Helper()
	m, err := unix.IoctlGetTermios(int(s.tty.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return *m
}

// converse works in a shell on a terminal, and leaves it as it was.
func (s *screen) converse(before unix.Termios) {
	s.t.Helper()
	// The words are joined by the shell, so that the echo of the keys is not them.
	s.types("echo he''llo\r")
	s.says("hello")
	s.types("stty size; test -t 0 && test -t 1 && echo is''atty; echo $TERM\r")
	s.says("30 100")
	s.says("isatty")
	s.says("xterm-256color")

	s.resize(44, 133)
	until(s.t, "the new size arrives", func() string {
		s.types("stty size\r")
		if out := s.output.String(); !strings.Contains(out, "44 133") {
			return out
		}
		return ""
	})

	// Ctrl-C is the program's, not ours. The prompt tells the end, since a shell may
	// drop keys that come with the signal.
	s.types("PROMPT_COMMAND='echo ended''$?'; echo wait''ing; sleep 600\r")
	s.says("waiting")
	s.presses("\x03", "ended130")
	s.presses("echo still''here\r", "stillhere")
	s.types("exit 5\r")
	if code := s.ends(); code != 5 {
		s.t.Errorf("exit code %d, want 5", code)
	}
	if after := s.modes(); after != before {
		s.t.Errorf("the terminal was not given back as it was: %+v, before %+v", after, before)
	}
}

// TestTerminalRun is a person's shell in a fresh sandbox.
func TestTerminalRun(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	s := g.onTerminal(nil, "sandbox", "run", "--", "bash", "--norc", "-i")
	// The settings are the same before the command touches them and after.
	s.converse(fresh(t))
}

// TestTerminalShell is a shell in a sandbox that stays.
func TestTerminalShell(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	sandbox := strings.TrimSpace(g.must("sandbox", "create"))
	s := g.onTerminal(nil, "sandbox", "shell", sandbox)
	s.converse(fresh(t))
	g.must("sandbox", "exec", sandbox, "--", "true")
}

// TestTerminalIsGivenBackAfterDeath has the sandbox die beneath the command.
func TestTerminalIsGivenBackAfterDeath(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	sandbox := strings.TrimSpace(g.must("sandbox", "create"))
	s := g.onTerminal(nil, "sandbox", "shell", sandbox)
	s.types("echo read''y\r")
	s.says("ready")
	g.must("sandbox", "kill", sandbox)
	if code := s.ends(); code == 0 {
		t.Errorf("exit code 0 for a shell whose sandbox was killed")
	}
	if after := s.modes(); after != fresh(t) {
		t.Errorf("the terminal was not given back as it was: %+v", after)
	}
}

// fresh returns the settings of a terminal that nobody has touched.
func fresh(t testing.TB) unix.Termios {
	t.Helper()
	keys, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	defer tty.Close()
	m, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *m
}

// TestProgressOnATerminal wants colours there, none with NO_COLOR or on a dumb
// terminal, and never an escape that a program chose.
func TestProgressOnATerminal(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	const evil = `Run this Python: import sys; sys.stderr.write("\x1b]0;owned\x07\x1b[2J\n"); raise ValueError("\x1b[31mred\x9b\u202e")`
	for _, c := range []struct {
		name   string
		env    []string
		colour bool
	}{
		{"plain", nil, true},
		{"NO_COLOR", []string{"NO_COLOR=1"}, false},
		{"dumb", []string{"TERM=dumb"}, false},
	} {
		s := g.onTerminal(c.env, "run", evil)
		if code := s.ends(); code != 1 {
			t.Errorf("%s: exit code %d\n%s", c.name, code, s.output)
		}
		s.says("question:")
		out := s.output.String()
		if got := strings.Contains(out, "\x1b["); got != c.colour {
			// The status line erases itself with an escape where it was shown.
			if c.colour || strings.Trim(strings.ReplaceAll(out, "\r\x1b[K", ""), "\x1b") != strings.ReplaceAll(out, "\r\x1b[K", "") || strings.Contains(strings.ReplaceAll(out, "\r\x1b[K", ""), "\x1b") {
				t.Errorf("%s: colours: %v, want %v\n%q", c.name, got, c.colour, out)
			}
		}
		for _, bad := range []string{"\x1b]", "\x07", "\x1b[2J", "\u202e", "\u009b", "\x1b[31mred"} {
			if strings.Contains(out, bad) {
				t.Errorf("%s: %q reached the terminal\n%q", c.name, bad, out)
			}
		}
	}
}

// TestGoneTerminal hangs up in the middle: the sandbox must not stay, even where the
// first the command hears of it is lost on it, as it may be on a shell that is on
// its way to its prompt.
func TestGoneTerminal(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	for name, command := range map[string][]string{
		"shell": {"bash", "--norc", "-i"},
		"deaf":  {"bash", "--norc", "-c", `trap 'trap "exit 3" HUP' HUP; while read line; do eval "$line"; done; while :; do sleep 0.1; done`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGarden(t)
			s := g.onTerminal(nil, append([]string{"sandbox", "run", "--"}, command...)...)
			s.types("echo read''y\r")
			s.says("ready")
			if err := errors.Join(s.tty.Close(), s.keys.Close()); err != nil {
				t.Fatal(fmt.Errorf("hang up: %w", err))
			}
			s.ends()
			g.idle()
		})
	}
}

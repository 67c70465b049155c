//go:build linux

package sudo

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Argv0 is the argument zero with which a multi-call binary runs this program.
const Argv0 = "sudo"

// Main runs the program and returns its exit code.
func Main() int {
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "sudo:", err)
		return 1
	}
	if o.done && len(o.args) == 0 {
		fmt.Print(o.say)
		return 0
	}
	code, err := run(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sudo:", err)
		return 1
	}
	return code
}

// run runs the command through the guest and returns its exit code.
func run(o *options) (int, error) {
	req, err := request(o)
	if err != nil {
		return 0, err
	}
	// Catch signals before the command can start.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGCONT)
	c, err := net.Dial("unix", Socket)
	switch {
	case errors.Is(err, unix.EPERM) && os.Getuid() != 0:
		return 0, fmt.Errorf("user %d is not a user of this sandbox and may not use sudo", os.Getuid())
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.EPERM):
		signal.Stop(signals)
		return 0, direct(o, req)
	}
	if err != nil {
		return 0, err
	}
	defer c.Close()
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	var t *terminal
	if isTerminal(os.Stdin) && isTerminal(os.Stdout) {
		if t, err = openTerminal(); err != nil {
			return 0, err
		}
		defer t.close()
		req.Terminal, files = true, []*os.File{t.slave, t.slave, t.slave}
	}
	if err := send(c.(*net.UnixConn), req, files); err != nil {
		return 0, err
	}
	if t != nil {
		t.begin()
	}
	answers := make(chan Answer, 1)
	go func() {
		var a Answer
		if err := Decode(c, &a); err != nil {
			a = Answer{Error: "read the guest's answer: " + err.Error()}
		}
		answers <- a
	}()
	for {
		select {
		case s := <-signals:
			if s == unix.SIGWINCH && t != nil {
				t.resize()
			}
			// A failed write means that the connection ended, which the answer reports.
			_, _ = c.Write([]byte{byte(s.(syscall.Signal))})
		case a := <-answers:
			if t != nil {
				t.end()
			}
			if a.Error != "" {
				return 0, errors.New(a.Error)
			}
			return a.Code, nil
		}
	}
}

// kept reports whether a variable is passed by default: those of the terminal and the
// language are.
func kept(name string) bool {
	return slices.Contains([]string{"TERM", "COLORTERM", "LANG", "LANGUAGE", "TZ", "NO_COLOR"}, name) || strings.HasPrefix(name, "LC_")
}

// request converts the options to a request.
func request(o *options) (*Request, error) {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/" // the directory was removed
	}
	req := &Request{User: o.user, Dir: dir, Args: o.args, Env: map[string]string{}}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		// PATH is always that of the target user.
		if name != "PATH" && (kept(name) || o.keepEnv || slices.Contains(o.keep, name)) {
			req.Env[name] = value
		}
	}
	req.Env["SUDO_UID"], req.Env["SUDO_GID"] = fmt.Sprint(os.Getuid()), fmt.Sprint(os.Getgid())
	if name := os.Getenv("USER"); name != "" {
		req.Env["SUDO_USER"] = name
	}
	if len(o.args) > 0 {
		req.Env["SUDO_COMMAND"] = strings.Join(o.args, " ")
	}
	for _, name := range []string{"USER", "LOGNAME"} {
		delete(req.Env, name)
	}
	for name, value := range o.env {
		req.Env[name] = value
	}
	switch {
	case o.login:
		req.Dir = ""
		req.Args = append([]string{"/bin/bash", "--login"}, script(o.args)...)
	case o.shell:
		shell := os.Getenv("SHELL")
		shell = cmp.Or(shell, "/bin/sh")
		req.Args = append([]string{shell}, script(o.args)...)
	}
	if o.dir != "" {
		req.Dir = o.dir
		if !strings.HasPrefix(o.dir, "/") {
			req.Dir = dir + "/" + o.dir
		}
	}
	return req, nil
}

// script returns a shell's arguments for a command, with each word quoted.
func script(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return []string{"-c", strings.Join(words, " ")}
}

// send sends the request with the descriptors.
func send(c *net.UnixConn, req *Request, files []*os.File) error {
	b, err := Encode(req)
	if err != nil {
		return err
	}
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	n, _, err := c.WriteMsgUnix(b, unix.UnixRights(fds...), nil)
	for err == nil && n < len(b) {
		var more int
		more, err = c.Write(b[n:])
		n += more
	}
	if errors.Is(err, io.ErrShortWrite) {
		err = nil
	}
	return err
}

// direct runs the command without the guest: either the sandbox has only one user, or root
// is the caller and Landlock denies it the guest's socket.
func direct(o *options, req *Request) error {
	home := os.Getenv("HOME")
	switch {
	case os.Getuid() == 0 && o.user != "" && o.user != "root":
		var err error
		if home, err = become(o.user); err != nil {
			return err
		}
	case os.Getuid() != 0:
		if o.user != "" && o.user != "root" && o.user != os.Getenv("USER") {
			return fmt.Errorf("user %q not found in this sandbox", o.user)
		}
		fmt.Fprintln(os.Stderr, "sudo: this sandbox has no root user; the command runs as", os.Getenv("USER"))
	}
	req.Dir = cmp.Or(req.Dir, home)
	if err := os.Chdir(req.Dir); err != nil {
		return err
	}
	for name, value := range req.Env {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	path, err := exec.LookPath(req.Args[0])
	if err != nil {
		return fmt.Errorf("%s: command not found", req.Args[0])
	}
	return fmt.Errorf("%s: %w", req.Args[0], unix.Exec(path, req.Args, os.Environ()))
}

// become changes from root to a user of /etc/passwd and returns the user's home.
func become(name string) (home string, err error) {
	b, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 7 || f[0] != name {
			continue
		}
		uid, uerr := strconv.Atoi(f[2])
		gid, gerr := strconv.Atoi(f[3])
		if err := errors.Join(uerr, gerr); err != nil {
			return "", fmt.Errorf("/etc/passwd: %w", err)
		}
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(gid), syscall.Setuid(uid)); err != nil {
			return "", fmt.Errorf("switch to user %s: %w", name, err)
		}
		return f[5], errors.Join(os.Setenv("HOME", f[5]), os.Setenv("USER", name), os.Setenv("LOGNAME", name))
	}
	return "", fmt.Errorf("user %q not found in /etc/passwd", name)
}

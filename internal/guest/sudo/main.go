//go:build linux

package sudo

import (
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

// Argv0 is the name by which a program that has several parts knows that it is to be
// this one.
const Argv0 = "sudo"

// Main runs the program and gives its exit code.
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

// run has the guest run the command.
func run(o *options) (int, error) {
	req, err := request(o)
	if err != nil {
		return 0, err
	}
	// Signals are the command's from before it can have begun.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGCONT)
	c, err := net.Dial("unix", Socket)
	switch {
	case errors.Is(err, unix.EPERM) && os.Getuid() != 0:
		return 0, fmt.Errorf("user %d, which root here became, may not use sudo", os.Getuid())
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
			a = Answer{Error: "the sandbox's guest ended the connection: " + err.Error()}
		}
		answers <- a
	}()
	for {
		select {
		case s := <-signals:
			if s == unix.SIGWINCH && t != nil {
				t.resize()
			}
			// One that cannot be sent is the connection's end, of which the answer tells.
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

// kept are the variables that a command has of the one who asks for it, beside those
// that were named: what the terminal is, and the language.
func kept(name string) bool {
	return slices.Contains([]string{"TERM", "COLORTERM", "LANG", "LANGUAGE", "TZ", "NO_COLOR"}, name) || strings.HasPrefix(name, "LC_")
}

// request is what the options ask the guest for.
func request(o *options) (*Request, error) {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/" // it was removed
	}
	req := &Request{User: o.user, Dir: dir, Args: o.args, Env: map[string]string{}}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		// The user's own PATH holds; HOME is the user's unless the environment is kept.
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
		if shell == "" {
			shell = "/bin/sh"
		}
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

// script gives a shell's arguments for a command, each word of which stays one.
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

// send sends the request and the descriptors.
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

// direct runs the command without the guest: there is no other user here, or it is root
// that asks, whom Landlock keeps from the guest's socket.
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
			return fmt.Errorf("this sandbox has no user %q to change to", o.user)
		}
		fmt.Fprintln(os.Stderr, "sudo: this sandbox has no root of its own; the command runs as", os.Getenv("USER"))
	}
	if req.Dir == "" {
		req.Dir = home
	}
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

// become changes root to a user of /etc/passwd, and gives the user's home.
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
			return "", fmt.Errorf("become %s: %w", name, err)
		}
		return f[5], errors.Join(os.Setenv("HOME", f[5]), os.Setenv("USER", name), os.Setenv("LOGNAME", name))
	}
	return "", fmt.Errorf("there is no user %q to become", name)
}

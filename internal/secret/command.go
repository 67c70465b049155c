package secret

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

const (
	// maxRunning is the maximum number of commands that run at a time.
	maxRunning = 8
	// holdFailure is how long a failure of a command is the answer to further requests, so that a
	// sandbox cannot make the daemon run it all the time.
	holdFailure = 5 * time.Second
	// drain is the time to read what is in the pipe of a command that has ended.
	drain = time.Second
)

// commands runs the commands of secrets, one at a time for each secret, and keeps their output.
type commands struct {
	cfg   Config
	slots chan struct{}

	mu      sync.Mutex
	entries map[[2]string]*entry
}

// entry is the last result of the command of one secret. What busy protects may be used only by
// who has a token in it.
type entry struct {
	users int           // who has it or waits for it; commands.mu protects it
	busy  chan struct{} // has a token while somebody has the entry

	set   time.Time // UpdatedAt of the row that the result is of
	until time.Time
	value string
	err   error
}

func newCommands(cfg Config) *commands {
	return &commands{cfg: cfg, slots: make(chan struct{}, maxRunning), entries: map[[2]string]*entry{}}
}

// keep stores the output of the command of a row.
func (e *entry) keep(row secrets.Secret, value string, now time.Time) {
	e.set, e.until, e.value, e.err = row.UpdatedAt, now.Add(time.Duration(row.LifetimeMS)*time.Millisecond), value, nil
}

// with calls do with the entry of a secret, which nobody else has meanwhile.
func (c *commands) with(ctx context.Context, account, name string, do func(*entry) error) error {
	key := [2]string{account, name}
	c.mu.Lock()
	e := c.entries[key]
	if e == nil {
		e = &entry{busy: make(chan struct{}, 1)}
		c.entries[key] = e
	}
	e.users++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		e.users--
		c.sweep()
	}()
	select {
	case e.busy <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-e.busy }()
	return do(e)
}

// sweep removes the entries that have expired and that nobody uses. The caller holds the lock.
func (c *commands) sweep() {
	now := c.cfg.Now()
	for key, e := range c.entries {
		if e.users == 0 && !now.Before(e.until) {
			delete(c.entries, key)
		}
	}
}

// forget removes the output of a secret that was removed. Who still has the entry does not use it
// for another secret: it is of an older row.
func (c *commands) forget(account, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, [2]string{account, name})
}

// value returns the output of the command of a row, from memory if it is there.
func (c *commands) value(ctx context.Context, row secrets.Secret) (value string, err error) {
	err = c.with(ctx, row.Account, row.Name, func(e *entry) error {
		now := c.cfg.Now()
		if !e.set.Equal(row.UpdatedAt) || !now.Before(e.until) {
			out, err := c.run(ctx, row)
			if ctx.Err() != nil {
				return ctx.Err() // this says nothing about the command
			}
			e.keep(row, out, c.cfg.Now())
			if err != nil {
				e.err, e.until = err, c.cfg.Now().Add(holdFailure)
			}
		}
		value = e.value
		return e.err
	})
	if err != nil {
		return "", err
	}
	return value, nil
}

// run runs the command of a row and returns its output. Errors do not contain output.
func (c *commands) run(ctx context.Context, row secrets.Secret) (string, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	limited, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	out, err := output(limited, row.Command, c.cfg.Environ)
	switch {
	case err == nil:
		return usable(row, cutLine(out))
	case ctx.Err() != nil:
		return "", ctx.Err()
	case limited.Err() != nil:
		err = fmt.Errorf("it did not end within %v", c.cfg.Timeout)
	}
	return "", api.Errorf(api.KindUnavailable, "secret %s: the command %.80q failed: %w", row.Name, filepath.Base(row.Command[0]), err).
		WithHint("run it as the user of the daemon to see its messages, which are not shown here because they may contain the value")
}

// output runs a command without a shell, in its own process group, until it ends or ctx does, and
// returns what it wrote to its standard output. Its group is killed at its end.
func output(ctx context.Context, args, environ []string) (string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer r.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout = environ, "/", w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		var at *exec.Error
		if errors.As(err, &at) {
			err = at.Err
		}
		return "", fmt.Errorf("it cannot be started: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		waitFor(cmd.Process.Pid)
	}()
	read := make(chan result, 1)
	go func() { read <- readAtMost(r, maxRead) }()
	var got *result
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-ctx.Done():
			running = false
		case res := <-read:
			got, read = &res, nil
			running = res.err == nil // it closed its output, and still runs
		}
	}
	// The leader is not reaped yet, so the id of the group is still its own.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	<-ended
	if got == nil {
		// A process that left the group may still have the pipe open.
		_ = r.SetReadDeadline(time.Now().Add(drain))
		res := <-read
		got = &res
	}
	waited := cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(got.err, errTooLong):
		return "", fmt.Errorf("its output has more than %d bytes", secrets.MaxValue)
	case errors.As(waited, &exit):
		return "", errors.New(exit.ProcessState.String()) // such as "exit status 1"
	case waited != nil:
		return "", waited
	case got.err != nil && !errors.Is(got.err, os.ErrDeadlineExceeded):
		return "", got.err
	}
	return string(got.out), nil
}

// result is what was read from a pipe.
type result struct {
	out []byte
	err error
}

// readAtMost reads until the end, and fails with errTooLong beyond a number of bytes.
func readAtMost(r io.Reader, most int64) result {
	out, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(out)) > most {
		err = errTooLong
	}
	return result{out, err}
}

// waitFor waits until a child has ended, and leaves it to be reaped.
func waitFor(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

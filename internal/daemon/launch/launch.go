package launch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/client"
	"hortus.dev/internal/daemon/datadir"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/platform/version"
)

// Options say which daemon is wanted.
type Options struct {
	DataDir string
	// ConfigFile is the file that a started daemon reads besides the environment; empty
	// means the daemon's default.
	ConfigFile string
	// Settings are those that the caller names. A started daemon gets them, and a running
	// one takes them over, except for the idle time of one that never stops by itself.
	Settings admin.DaemonSettings
	// Models and Forges are fingerprints of this process's variables for hosted models and
	// forges. A daemon with another fingerprint is replaced; empty accepts any.
	Models, Forges string
}

// timeout is the maximum time for finding, starting or replacing a daemon.
const timeout = 30 * time.Second

// Connect returns a client of the data directory's daemon. It starts a daemon if none answers,
// and replaces one of another build or with other variables for models or forges: its
// sandboxes continue under the new one. The error is KindConflict if the old daemon runs
// tasks, or is a resident one, and the daemon's own if one answers and serves nothing now.
func Connect(ctx context.Context, opt Options) (*client.Client, error) {
	dir, err := datadir.Open(opt.DataDir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	mine := version.Describe().Build
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		c := client.Unix(dir.Socket())
		info, err := c.Info(ctx)
		switch {
		case err == nil && info.Version.Build == mine && (opt.matches(info) || resident(info)):
			if err := opt.apply(ctx, c, info.Settings); err != nil {
				c.Close()
				return nil, err
			}
			return c, nil
		case err == nil && info.Sandboxes+info.Tasks > 0:
			if err := handOver(ctx, c, info); err != nil {
				c.Close()
				return nil, occupied(dir, mine, info)
			}
		case err == nil:
			err = c.Stop(ctx, false)
		}
		c.Close()
		taken := owned(dir)
		switch {
		case taken && refuses(err):
			return nil, err
		case ctx.Err() != nil && taken:
			return nil, api.Errorf(api.KindTimeout, "the daemon of %s runs and does not answer", dir).
				WithHint("its log is %s, or that of its service manager", dir.Log())
		case ctx.Err() != nil:
			return nil, api.Errorf(api.KindTimeout, "no daemon answers at %s", dir).
				WithHint("its log is %s", dir.Log())
		case !taken:
			// If another process started a daemon first, the next round finds its socket.
			if err := spawn(ctx, dir, opt); err != nil && !errors.Is(err, datadir.ErrOwned) {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// owned reports whether a daemon has a data directory.
func owned(dir datadir.Dir) bool {
	l, err := datadir.AcquireLock(dir.Lock())
	if err == nil {
		l.Release()
	}
	return errors.Is(err, datadir.ErrOwned)
}

// refuses reports whether a daemon answered that it does not serve, as a node of a fleet without its database does. One that
// stops answers too, with an unavailable error and no time to try again: the next daemon is wanted then.
func refuses(err error) bool {
	switch api.KindOf(err) {
	case "", api.KindTimeout, api.KindCanceled: // Connect's own
		return false
	case api.KindUnavailable: // as of one that could not be reached
		return api.RetryAfterOf(err) > 0
	}
	return true
}

// handOver stops a daemon and leaves its sandboxes running for the next one. It fails for a
// daemon that runs tasks, for a resident one, and for a build that does not support it.
func handOver(ctx context.Context, c *client.Client, info admin.DaemonInfo) error {
	if info.Tasks > 0 || resident(info) {
		return datadir.ErrOwned
	}
	return c.StopKeeping(ctx, false)
}

// occupied explains why a daemon is not replaced by one of this build and with these
// variables.
func occupied(dir datadir.Dir, mine string, info admin.DaemonInfo) error {
	if info.Version.Build == mine {
		return api.Errorf(api.KindConflict,
			"the daemon of %s was started with other keys or URLs of models or forges than are set now, and has %d sandboxes and %d tasks",
			dir, info.Sandboxes, info.Tasks).
			WithHint("end them, or run hortus daemon stop --force; or unset the variables to use the daemon's")
	}
	err := api.Errorf(api.KindConflict,
		"the daemon of %s is another build (%s, this is %s) and has %d sandboxes and %d tasks",
		dir, info.Version.Build, mine, info.Sandboxes, info.Tasks)
	if resident(info) {
		return err.WithHint("restart it with this build, as with systemctl restart hortus, or use another --data-dir")
	}
	return err.WithHint("end them, or run hortus daemon stop --force, or use another --data-dir")
}

// flags returns the command line flags of a daemon that is started with these options.
func (opt Options) flags() (args []string) {
	if opt.ConfigFile != "" {
		args = append(args, "--config", opt.ConfigFile)
	}
	if opt.Settings.LogLevel != "" {
		args = append(args, "--log-level", opt.Settings.LogLevel)
	}
	if ms := opt.Settings.IdleMS; ms != nil && *ms < 0 {
		args = append(args, "--idle", config.Never)
	} else if ms != nil {
		args = append(args, "--idle", (time.Duration(*ms) * time.Millisecond).String())
	}
	return args
}

// apply changes the settings of a running daemon to those that are named.
func (opt Options) apply(ctx context.Context, c *client.Client, have admin.DaemonSettings) error {
	want := opt.Settings
	if want.LogLevel == have.LogLevel {
		want.LogLevel = ""
	}
	if have.IdleMS == nil || *have.IdleMS < 0 || want.IdleMS != nil && *want.IdleMS == *have.IdleMS {
		want.IdleMS = nil
	}
	if want.LogLevel == "" && want.IdleMS == nil {
		return nil
	}
	_, err := c.Configure(ctx, want)
	return err
}

// matches reports whether a daemon has the wanted variables for models and forges.
func (opt Options) matches(info admin.DaemonInfo) bool {
	return (opt.Models == "" || opt.Models == info.Models) && (opt.Forges == "" || opt.Forges == info.Forges)
}

// resident reports whether a daemon never stops by itself. Its operator chose its settings.
func resident(info admin.DaemonInfo) bool {
	return info.Settings.IdleMS != nil && *info.Settings.IdleMS < 0
}

// Served returns a KindConflict error if a resident daemon serves a data directory.
func Served(ctx context.Context, path string) error {
	dir := datadir.Dir(path)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := client.Unix(dir.Socket())
	defer c.Close()
	info, err := c.Info(ctx)
	if err != nil || !resident(info) {
		return nil
	}
	return served(dir, info)
}

func served(dir datadir.Dir, info admin.DaemonInfo) error {
	return api.Errorf(api.KindConflict, "a resident daemon (pid %d) already serves %s", info.PID, dir).
		WithHint("use it (hortus daemon status; with the setting daemon.serve it serves over TCP too), stop it (hortus daemon stop), or use another --data-dir")
}

// Displace stops the daemon of a data directory that a command started, and leaves its
// sandboxes to the caller's daemon. The error is KindConflict for a resident daemon.
func Displace(ctx context.Context, path string) error {
	dir := datadir.Dir(path)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := client.Unix(dir.Socket())
	defer c.Close()
	info, err := c.Info(ctx)
	if err == nil && resident(info) {
		return served(dir, info)
	}
	if err == nil {
		err = c.StopKeeping(ctx, false)
	}
	// One that does not answer is starting or stopping.
	if err != nil && api.KindOf(err) != api.KindUnavailable {
		return err
	}
	if awaitLock(ctx, dir, func() bool { return false }) != nil {
		return api.Errorf(api.KindConflict, "the daemon of %s did not stop", dir).WithHint("its log is %s", dir.Log())
	}
	return nil
}

// AwaitStop waits until a daemon that was stopped no longer uses a data directory: nobody does, or another one.
func AwaitStop(ctx context.Context, path string, pid int) error {
	dir := datadir.Dir(path)
	c := client.Unix(dir.Socket())
	defer c.Close()
	return awaitLock(ctx, dir, func() bool {
		info, err := c.Info(ctx)
		return err == nil && info.PID != pid
	})
}

// awaitLock waits until nobody has the lock of a data directory, or until says so.
func awaitLock(ctx context.Context, dir datadir.Dir, until func() bool) error {
	for wait := 5 * time.Millisecond; !datadir.LockIsFree(dir.Lock()) && !until(); wait = min(2*wait, 100*time.Millisecond) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
	return nil
}

// readyEnv is the variable with the descriptor on which a started daemon reports that it
// serves.
const readyEnv = "HORTUS_READY_FD"

// spawn starts a daemon of this executable and waits until it serves or reports why not.
func spawn(ctx context.Context, dir datadir.Dir, opt Options) error {
	log, err := dir.OpenLog()
	if err != nil {
		return err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return api.Errorf(api.KindInternal, "start the daemon: %w", err)
	}
	defer r.Close()
	// The file of this executable may have been replaced or deleted since it started (go run
	// deletes it); the link in /proc is the running one.
	cmd := exec.Command("/proc/self/exe", append([]string{"daemon", "run", "--data-dir", string(dir)}, opt.flags()...)...)
	cmd.Args[0] = "hortus"
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{w}
	cmd.Env = append(os.Environ(), readyEnv+"=3")
	// In a session of its own it does not get the terminal's signals.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return api.Errorf(api.KindInternal, "start the daemon: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { r.SetReadDeadline(time.Now()) })
	defer stop()
	line, err := bufio.NewReader(io.LimitReader(r, 64<<10)).ReadBytes('\n')
	if err != nil {
		return api.Errorf(api.KindInternal, "the daemon ended before it was ready").WithHint("its log is %s", dir.Log())
	}
	var said message
	if err := json.Unmarshal(line, &said); err != nil {
		return api.Errorf(api.KindInternal, "the daemon reported %.80q instead of being ready", line)
	}
	switch {
	case said.Owned:
		_ = cmd.Wait() // it ends at once and must be reaped
		return datadir.ErrOwned
	case said.Error != nil:
		_ = cmd.Wait()
		return said.Error
	}
	return cmd.Process.Release()
}

// message is the one line that a started daemon writes; it is empty if the daemon serves.
type message struct {
	Owned bool       `json:"owned,omitempty"`
	Error *api.Error `json:"error,omitempty"`
}

// Report notifies the process that started this daemon that it serves or, with an error, why
// not. It does nothing if no process waits for that.
func Report(getenv func(string) string, failure error) {
	var fd int
	if _, err := fmt.Sscanf(getenv(readyEnv), "%d", &fd); err != nil || fd < 3 {
		return
	}
	f := os.NewFile(uintptr(fd), "ready")
	if f == nil {
		return
	}
	defer f.Close()
	m := message{Owned: errors.Is(failure, datadir.ErrOwned)}
	if failure != nil {
		m.Error = api.AsError(failure)
	}
	_ = json.NewEncoder(f).Encode(m)
}

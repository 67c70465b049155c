package daemon

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
	"hortus.dev/client"
	"hortus.dev/internal/platform/config"
)

// ConnectOptions say whose daemon is wanted.
type ConnectOptions struct {
	DataDir string
	// ConfigFile is the file that a daemon that is started reads, beside the
	// environment; empty leaves that to the daemon.
	ConfigFile string
	// Settings are those that the caller names. A daemon that is started gets
	// them, and one that runs takes them over, but for the time that a daemon
	// stays which was told to stay for ever.
	Settings api.DaemonSettings
	// Models wants a daemon with the settings for hosted models that this process
	// has, if it has any.
	Models bool
	// Forges wants the same of the tokens of forges. TokenVariables are the
	// variables that the caller's configuration names for them.
	Forges         bool
	TokenVariables []string
}

// connectTimeout bounds finding or starting a daemon.
const connectTimeout = 30 * time.Second

// Connect gives a client of the data directory's daemon. It starts one when none
// answers, and replaces one that is of another build or, where hosted models or forges
// are wanted, was started with other settings for them: its sandboxes go on under the
// new one. One that holds what cannot go on so, a task above all, is a KindConflict.
func Connect(ctx context.Context, opt ConnectOptions) (*client.Client, error) {
	dir, err := openDataDir(opt.DataDir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	mine, settings, forges := Version().Build, "", ""
	if opt.Models {
		settings = modelSettings(os.Getenv)
	}
	if opt.Forges {
		forges = forgeSettings(os.Getenv, opt.TokenVariables)
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		c := client.Unix(dir.socket())
		info, err := c.Info(ctx)
		switch {
		case err == nil && info.Version.Build == mine && ((settings == "" || settings == info.Models) && (forges == "" || forges == info.Forges) || stays(info)):
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
		if ctx.Err() != nil {
			return nil, api.Errorf(api.KindTimeout, "no daemon answers for %s", dir).
				WithHint("its log is %s", dir.log())
		}
		// Whoever loses the race for the lock finds the winner's socket in the
		// next round.
		if err := spawn(ctx, dir, opt); err != nil && !errors.Is(err, errOwned) {
			return nil, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// handOver has a daemon leave its sandboxes running for the one that is started next.
// It fails where that cannot be: with tasks, which no other daemon goes on with; at a
// resident one, whose operator's business that is; at one of a build that cannot.
func handOver(ctx context.Context, c *client.Client, info api.DaemonInfo) error {
	if info.Tasks > 0 || stays(info) {
		return errOwned
	}
	return c.StopKeeping(ctx, false)
}

// occupied says why a daemon is not replaced by one of this build and with these
// settings.
func occupied(dir dataDir, mine string, info api.DaemonInfo) error {
	if info.Version.Build == mine {
		return api.Errorf(api.KindConflict,
			"the daemon of %s was started with other keys or addresses of models or forges than are set here, and holds %d sandboxes and %d tasks",
			dir, info.Sandboxes, info.Tasks).
			WithHint("end them, or: hortus daemon stop --force; or unset the variables here to use the daemon's")
	}
	err := api.Errorf(api.KindConflict,
		"the daemon of %s is another build (%s, this is %s) and holds %d sandboxes and %d tasks",
		dir, info.Version.Build, mine, info.Sandboxes, info.Tasks)
	if stays(info) {
		return err.WithHint("start it anew with this build, as with systemctl restart hortus, or use another --data-dir")
	}
	return err.WithHint("end them, or: hortus daemon stop --force, or use another --data-dir")
}

// flags are the flags of a daemon that is started with these options.
func (opt ConnectOptions) flags() (args []string) {
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

// apply hands the settings that are named to a daemon that runs with others.
func (opt ConnectOptions) apply(ctx context.Context, c *client.Client, have api.DaemonSettings) error {
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

// readyEnv tells a daemon the descriptor on which it is to say that it serves.
const readyEnv = "HORTUS_READY_FD"

// spawn starts a daemon of this executable and waits until it serves or says why
// it cannot.
func spawn(ctx context.Context, dir dataDir, opt ConnectOptions) error {
	log, err := openLog(dir.log())
	if err != nil {
		return err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return api.Errorf(api.KindInternal, "start the daemon: %w", err)
	}
	defer r.Close()
	// The executable may have been replaced or deleted since this one began
	// (go run deletes it); the link of /proc leads to the one that runs.
	cmd := exec.Command("/proc/self/exe", append([]string{"daemon", "run", "--data-dir", string(dir)}, opt.flags()...)...)
	cmd.Args[0] = "hortus"
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{w}
	cmd.Env = append(os.Environ(), readyEnv+"=3")
	// A session of its own: the terminal's signals are not for it.
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
		return api.Errorf(api.KindInternal, "the daemon ended before it served").WithHint("its log is %s", dir.log())
	}
	var said readyMessage
	if err := json.Unmarshal(line, &said); err != nil {
		return api.Errorf(api.KindInternal, "the daemon said %.80q instead of serving", line)
	}
	switch {
	case said.Owned:
		_ = cmd.Wait() // it ends at once; nobody else would reap it
		return errOwned
	case said.Error != nil:
		_ = cmd.Wait()
		return said.Error
	}
	return cmd.Process.Release()
}

// readyMessage is the one line that a started daemon writes: empty when it
// serves.
type readyMessage struct {
	Owned bool       `json:"owned,omitempty"`
	Error *api.Error `json:"error,omitempty"`
}

// say tells whoever started this daemon how that went.
func say(getenv func(string) string, m readyMessage) {
	var fd int
	if _, err := fmt.Sscanf(getenv(readyEnv), "%d", &fd); err != nil || fd < 3 {
		return
	}
	f := os.NewFile(uintptr(fd), "ready")
	if f == nil {
		return
	}
	defer f.Close()
	_ = json.NewEncoder(f).Encode(m)
}

// openLog opens the daemon's log for appending; one that has grown large makes
// room first.
func openLog(path string) (*os.File, error) {
	const most = 4 << 20
	if st, err := os.Stat(path); err == nil && st.Size() > most {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, api.Errorf(api.KindInternal, "daemon log: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "daemon log: %w", err)
	}
	return f, nil
}

// stays says that a daemon never leaves by itself: its settings are its
// operator's.
func stays(info api.DaemonInfo) bool {
	return info.Settings.IdleMS != nil && *info.Settings.IdleMS < 0
}

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/platform/config"
)

// ResidentOptions are what `hortus serve` was told. What is empty comes from the
// environment, the configuration file or the defaults.
type ResidentOptions struct {
	DataDir, ConfigFile, LogLevel string
	Listen, Insecure              string
	// Announce is told where the daemon is reached, and the first key where one was
	// made.
	Announce func(url string, first api.CreatedKey)
}

// Resident is the command `hortus serve`: it serves a data directory in the
// foreground, on its socket and on TCP, until a signal or a client ends it.
func Resident(ctx context.Context, opt ResidentOptions) error {
	level := &slog.LevelVar{}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	never := config.Never
	set, err := settings(opt.ConfigFile, map[string]*string{
		"data-dir": &opt.DataDir, "log-level": &opt.LogLevel, "idle": &never, "listen": &opt.Listen, "insecure-listen": &opt.Insecure,
	})
	if err != nil {
		return err
	}
	if set.dataDir == "" {
		if set.dataDir, err = config.DefaultDataDir(config.Source{Getenv: os.Getenv, UID: os.Getuid()}); err != nil {
			return err
		}
	}
	level.Set(set.level)
	syscall.Umask(0o022) // as for every daemon
	ctx, stop := untilSignal(ctx)
	defer stop()
	first := true
	if toJournal(os.Stdout, os.Getenv("JOURNAL_STREAM")) {
		// What a service prints is kept, and read by more than its user.
		first = false
		logger.Info("no first API key is made where its output goes to the journal", "next", "hortus key create --account NAME --role admin")
	}
	cfg := set.config(logger, level)
	cfg.Front = Front{Listen: set.listen, Insecure: set.insecure, FirstKey: first, Announce: opt.Announce}
	// What cannot be listened on is said before another daemon makes way.
	probe, err := listenTCP(ctx, cfg.Front)
	if err != nil {
		return err
	}
	probe.Close()
	for {
		err := run(ctx, cfg)
		if !errors.Is(err, errOwned) {
			return err
		}
		if err := displace(ctx, set.dataDir); err != nil {
			return err
		}
	}
}

// displace has a daemon that a command started leave its data directory, and its
// sandboxes to this one.
func displace(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	c := client.Unix(dataDir(dir).socket())
	defer c.Close()
	info, err := c.Info(ctx)
	if err == nil && stays(info) {
		return api.Errorf(api.KindConflict, "a resident daemon (pid %d) serves %s already", info.PID, dir).
			WithHint("use it (hortus daemon status; with the setting daemon.serve it serves over TCP too), stop it (hortus daemon stop), or name another --data-dir")
	}
	if err == nil {
		err = c.StopKeeping(ctx, false)
	}
	// One that does not answer is on its way out, or on its way in.
	if err != nil && api.KindOf(err) != api.KindUnavailable {
		return err
	}
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		if lockIsFree(dataDir(dir).lock()) {
			return nil
		}
		select {
		case <-ctx.Done():
			return api.Errorf(api.KindConflict, "the daemon of %s does not leave", dir).WithHint("its log is %s", dataDir(dir).log())
		case <-time.After(wait):
		}
	}
}

// toJournal says whether a file is the stream that systemd collects, which it names
// as DEVICE:INODE.
func toJournal(f *os.File, stream string) bool {
	var st unix.Stat_t
	if stream == "" || unix.Fstat(int(f.Fd()), &st) != nil {
		return false
	}
	return stream == fmt.Sprint(strconv.FormatUint(uint64(st.Dev), 10), ":", strconv.FormatUint(st.Ino, 10))
}

package daemon

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"hortus.dev/api"
)

// maxPool bounds the guests of a kind that are booted ahead.
const maxPool = 1000

// Main is the command `hortus daemon run`, which Connect starts: it serves a data
// directory until it is told to stop or nothing is left to do. It gives an exit
// code.
func Main(args []string) int {
	flags := flag.NewFlagSet("hortus daemon run", flag.ContinueOnError)
	dataDir := flags.String("data-dir", "", "the data directory")
	idle := flags.Duration("idle", 0, "how long to stay when idle; below 0: for ever")
	pool := flags.Int("pool", 0, "how many guests of each kind to boot ahead; below 0: none (or HORTUS_POOL)")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if *dataDir == "" {
		d, err := DefaultDataDir(os.Getenv, os.Getuid())
		if err != nil {
			logger.Error(err.Error())
			return 2
		}
		*dataDir = d
	}
	if v := os.Getenv("HORTUS_POOL"); *pool == 0 && v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n > maxPool {
			logger.Error("HORTUS_POOL is no number up to "+strconv.Itoa(maxPool), "value", v)
			return 2
		}
		if *pool = n; n == 0 {
			*pool = -1
		}
	}
	// The modes of what sandboxes see are not for the caller's umask to decide;
	// the data directory itself is closed to others.
	syscall.Umask(0o022)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := run(ctx, Config{
		DataDir: *dataDir, Idle: *idle, Pool: *pool, Home: os.Getenv("HOME"), Path: os.Getenv("PATH"), Logger: logger,
	})
	if err != nil {
		logger.Error("daemon ended", "error", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, cfg Config) error {
	s, err := Open(ctx, cfg)
	if err != nil {
		say(os.Getenv, readyMessage{Error: api.AsError(err), Owned: errors.Is(err, errOwned)})
		return err
	}
	// Every sandbox is a fork of this process, and what a fork costs grows with
	// the memory that it would have to copy: what starting up left behind goes
	// back, and the rest is kept small.
	debug.SetGCPercent(50)
	debug.FreeOSMemory()
	serving := false
	err = s.Serve(ctx, func() { serving = true; say(os.Getenv, readyMessage{}) })
	if !serving {
		say(os.Getenv, readyMessage{Error: api.AsError(err)})
	}
	closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return errors.Join(err, s.Close(closeCtx))
}

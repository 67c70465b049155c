package daemon

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/platform/telemetry"
)

// Main is the command `hortus daemon run`, which Connect starts: it serves a data
// directory until it is told to stop or nothing is left to do. It gives an exit
// code.
func Main(args []string) int {
	flags := flag.NewFlagSet("hortus daemon run", flag.ContinueOnError)
	given := map[string]*string{
		"data-dir":  flags.String("data-dir", "", "the data directory"),
		"idle":      flags.String("idle", "", "how long to stay when idle, or never"),
		"pool":      flags.String("pool", "", "how many guests of each kind to boot ahead; 0 for none"),
		"log-level": flags.String("log-level", "", "debug, info, warn or error"),
	}
	file := flags.String("config", "", "the configuration file")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	level := &slog.LevelVar{}
	logger := slog.New(telemetry.Log(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
	set, err := settings(*file, given)
	if err == nil && set.dataDir == "" {
		_, err = config.DefaultDataDir(config.Source{Getenv: os.Getenv, UID: os.Getuid()})
	}
	if err != nil {
		logger.Error("the daemon is not set up", "error", err, "next", api.HintOf(err))
		say(os.Getenv, readyMessage{Error: api.AsError(err)})
		return 2
	}
	level.Set(set.level)
	// The modes of what sandboxes see are not for the caller's umask to decide;
	// the data directory itself is closed to others.
	syscall.Umask(0o022)
	ctx, stop := untilSignal(context.Background())
	defer stop()
	cfg := set.config(logger, level)
	if set.serve && set.idle < 0 {
		// No first key: the output goes to a log.
		cfg.Front = Front{Listen: set.listen, Insecure: set.insecure}
	}
	if err := run(ctx, cfg); err != nil {
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

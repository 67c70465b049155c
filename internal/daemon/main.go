package daemon

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"log"
	"log/slog"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/agent/model/catalogue"
	"hortus.dev/internal/daemon/datadir"
	"hortus.dev/internal/daemon/launch"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/platform/service"
	"hortus.dev/internal/server/front"
	"hortus.dev/internal/task/delivery"
	"hortus.dev/internal/telemetry"
)

// Main is the command `hortus daemon run`, which Connect starts: it serves a data directory
// until it is stopped or idle. It returns an exit code.
func Main(args []string) int {
	flags := flag.NewFlagSet("hortus daemon run", flag.ContinueOnError)
	given := map[string]*string{
		"data-dir":  flags.String("data-dir", "", "data directory"),
		"idle":      flags.String("idle", "", "time after which an unused daemon ends, or never (default 3s)"),
		"pool":      flags.String("pool", "", "number of guests of each kind that are booted ahead; 0 for none (default 2)"),
		"log-level": flags.String("log-level", "", "log level: debug, info, warn or error (default info)"),
	}
	file := flags.String("config", "", "configuration file")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	level := &slog.LevelVar{}
	logger := slog.New(telemetry.Log(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
	set, err := loadSettings(*file, given)
	if err != nil {
		logger.Error("invalid daemon configuration", "error", err, "next", api.HintOf(err))
		launch.Report(os.Getenv, err)
		return 2
	}
	if !set.serve || set.Idle >= 0 {
		set.Front, set.OpenID = front.Config{}, OpenID{} // only a resident daemon serves over TCP
	}
	ctx, stop := service.UntilSignal(context.Background())
	defer stop()
	if err := run(ctx, set, logger, level); err != nil {
		logger.Error("daemon ended", "error", err)
		return 1
	}
	return 0
}

// run opens a system, serves until it is stopped, and closes it.
func run(ctx context.Context, set settings, logger *slog.Logger, level *slog.LevelVar) error {
	level.Set(set.level)
	set.Logger, set.Level = logger, level
	log.SetFlags(0)
	log.SetOutput(telemetry.Libraries(logger))
	// The modes of files that sandboxes see must not depend on the caller's umask.
	syscall.Umask(0o022)
	s, err := Open(ctx, set.Config)
	if err != nil && ctx.Err() != nil {
		logger.Debug("stopped while starting", "cause", context.Cause(ctx), "error", err)
		err = api.Errorf(api.KindOf(ctx.Err()), "stopped while starting (%w)", context.Cause(ctx))
	}
	if err != nil {
		launch.Report(os.Getenv, err)
		return err
	}
	// Every sandbox starts with a fork of this process, whose cost grows with its memory:
	// free what starting has used, and keep the heap small.
	debug.SetGCPercent(50)
	debug.FreeOSMemory()
	serving := false
	err = s.Serve(ctx, func() { serving = true; launch.Report(os.Getenv, nil) })
	if !serving {
		launch.Report(os.Getenv, err)
	}
	closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return errors.Join(err, s.Close(closeCtx))
}

// ResidentOptions are the flags of `hortus serve`. An empty one comes from the environment,
// the configuration file or the defaults.
type ResidentOptions struct {
	DataDir, ConfigFile, LogLevel     string
	Listen, Insecure                  string
	TLSCert, TLSKey, ACMENames        string
	RedirectListen, Domain, PublicURL string
	Store                             string
	// Announce is called with the URL of the daemon and, if one was created, the first key.
	Announce func(url string, first api.CreatedKey)
}

// Resident is the command `hortus serve`: it serves a data directory in the foreground, on its
// socket and over TCP, until a signal or a client stops it.
func Resident(ctx context.Context, opt ResidentOptions) error {
	never := config.Never
	set, err := loadSettings(opt.ConfigFile, map[string]*string{
		"data-dir": &opt.DataDir, "log-level": &opt.LogLevel, "idle": &never, "listen": &opt.Listen, "insecure-listen": &opt.Insecure,
		"tls-cert": &opt.TLSCert, "tls-key": &opt.TLSKey, "acme-names": &opt.ACMENames, "redirect-listen": &opt.RedirectListen, "domain": &opt.Domain, "public-url": &opt.PublicURL, "store": &opt.Store,
	})
	if err != nil {
		return err
	}
	level := &slog.LevelVar{}
	level.Set(set.level)
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	ctx, stop := service.UntilSignal(ctx)
	defer stop()
	set.Front.Announce = opt.Announce
	// A journal is kept, as is the output of a pod, and other users may read it.
	set.Front.FirstKey = !service.ToJournal(os.Stdout, os.Getenv("JOURNAL_STREAM")) && os.Getenv("KUBERNETES_SERVICE_HOST") == ""
	set.Front.Keyless = func() {
		logger.Info("no first API key is created if the output goes to the journal or is that of a pod", "next", "hortus key create --account NAME --role admin")
	}
	// An address that is not usable is reported before another daemon is stopped.
	if err := front.Check(ctx, set.Front); err != nil {
		return cmp.Or(launch.Served(ctx, set.DataDir), err) // the address may be that of the daemon of this data directory
	}
	for {
		err := run(ctx, set, logger, level)
		if !errors.Is(err, datadir.ErrOwned) {
			return err
		}
		if err := launch.Displace(ctx, set.DataDir); err != nil {
			return err
		}
	}
}

// ConnectOptions say which daemon is wanted.
type ConnectOptions struct {
	// Options are those of launch.Connect; the fingerprints are filled in here.
	launch.Options
	// Models and Forges want a daemon with this process's variables for hosted models and
	// for forges. TokenVariables are those that the caller's configuration names.
	Models, Forges bool
	TokenVariables []string
}

// Connect returns a client of the data directory's daemon, which it starts if none runs.
func Connect(ctx context.Context, opt ConnectOptions) (*client.Client, error) {
	if opt.Models {
		opt.Options.Models = catalogue.Fingerprint(os.Getenv)
	}
	if opt.Forges {
		opt.Options.Forges = delivery.Fingerprint(os.Getenv, opt.TokenVariables)
	}
	return launch.Connect(ctx, opt.Options)
}

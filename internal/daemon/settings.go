package daemon

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/door/access"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/store/retention"
)

// setup is what a daemon is set to when it starts.
type setup struct {
	dataDir string
	idle    time.Duration // as in Config
	pool    int           // as in Config
	runsc   string        // as in Config
	level   slog.Level
	forges  []config.Forge
	policy  config.Policy
	room    Room               // as in Config
	keep    retention.Bounds   // as in Config
	rates   access.RatesConfig // as in Config
	drain   time.Duration      // as in Config
	npm     string             // as in Config
	// serve makes a resident daemon serve over TCP; listen and insecure say where.
	serve    bool
	listen   string
	insecure bool
	usual    api.CreateSandbox // as in Config
}

// config is what a system is made from that is set so, in this process.
func (s setup) config(logger *slog.Logger, level *slog.LevelVar) Config {
	self, err := os.Executable()
	if err != nil {
		logger.Warn("gVisor is not looked for beside this program", "error", err)
	}
	return Config{
		DataDir: s.dataDir, Idle: s.idle, Pool: s.pool, Runsc: s.runsc, Executable: self,
		Home: os.Getenv("HOME"), Path: os.Getenv("PATH"), Getenv: os.Getenv, Logger: logger, Level: level,
		Forges: s.forges, Policy: s.policy, Room: s.room, Keep: s.keep, Rates: s.rates, Drain: s.drain, NPM: s.npm, Usual: s.usual,
	}
}

// settings reads what the daemon is set to: by its flags, then the environment,
// then the file, then the defaults.
func settings(file string, flags map[string]*string) (setup, error) {
	conf, err := config.Load(config.Source{Getenv: os.Getenv, File: file, UID: os.Getuid()})
	if err != nil {
		return setup{}, err
	}
	text := map[string]string{}
	for name, key := range map[string]string{"data-dir": "data-dir", "idle": "daemon.idle", "pool": "daemon.pool", "log-level": "log-level",
		"listen": "serve.listen", "insecure-listen": "serve.insecure-listen"} {
		v := conf.Get(key)
		if text[name] = v.Text; flags[name] != nil && *flags[name] != "" {
			text[name] = *flags[name]
			if e := v.Setting.Check(text[name]); e != nil {
				return setup{}, api.Errorf(api.KindInvalid, "--%s: %s", name, e.Message).WithHint("%s", e.Hint)
			}
		}
	}
	out := setup{dataDir: text["data-dir"], runsc: conf.Get("daemon.runsc").Text, npm: conf.Get("daemon.bench-npm").Text, policy: conf.Policy(),
		listen: text["listen"], insecure: text["insecure-listen"] == "true",
		serve: conf.Get("daemon.serve").Text == "true",
		usual: api.CreateSandbox{Isolation: conf.Get("sandbox.isolation").Text}}
	if out.forges, err = conf.Forges(); err != nil {
		return setup{}, err
	}
	if out.idle, err = config.ParseStay(text["idle"]); err != nil {
		return setup{}, err
	}
	if out.idle == 0 {
		out.idle = 1 // Config takes 0 for the default
	}
	if out.pool, err = strconv.Atoi(text["pool"]); err != nil {
		return setup{}, api.Errorf(api.KindInvalid, "pool: %w", err)
	}
	if out.pool == 0 {
		out.pool = -1 // the same
	}
	if out.room, err = roomOf(conf); err != nil {
		return setup{}, err
	}
	if out.keep, err = keepOf(conf); err != nil {
		return setup{}, err
	}
	if out.rates, err = ratesOf(conf); err != nil {
		return setup{}, err
	}
	if out.usual.Limits, err = limitsOf(conf); err != nil {
		return setup{}, err
	}
	if out.drain, err = config.ParseStay(conf.Get("daemon.drain").Text); err != nil {
		return setup{}, err
	}
	out.level, err = levelOf(text["log-level"])
	return out, err
}

// levelOf gives the level of a name.
func levelOf(name string) (slog.Level, error) {
	var l slog.Level
	for _, known := range config.Levels() {
		if name == known {
			return l, l.UnmarshalText([]byte(name))
		}
	}
	return l, api.Errorf(api.KindInvalid, "there is no log level %.40q", name).WithHint("it is one of %s", strings.Join(config.Levels(), ", "))
}

// settings tells what the daemon runs with.
func (s *System) settings() api.DaemonSettings {
	idle := time.Duration(s.idle.Load())
	ms := idle.Milliseconds()
	if idle < 0 {
		ms = -1
	}
	out := api.DaemonSettings{IdleMS: &ms}
	if s.cfg.Level != nil {
		out.LogLevel = strings.ToLower(s.cfg.Level.Level().String())
	}
	return out
}

// Configure implements the door's Upkeep: it changes what is named and tells what
// holds then.
func (s *System) Configure(_ context.Context, want api.DaemonSettings) (api.DaemonSettings, error) {
	if want.LogLevel != "" {
		l, err := levelOf(want.LogLevel)
		if err != nil {
			return s.settings(), err
		}
		if s.cfg.Level == nil {
			return s.settings(), api.Errorf(api.KindUnsupported, "the log level of this daemon cannot be changed")
		}
		s.cfg.Level.Set(l)
	}
	if ms := want.IdleMS; ms != nil {
		if *ms > (365 * 24 * time.Hour).Milliseconds() {
			return s.settings(), api.Errorf(api.KindInvalid, "idle for %d ms is more than a year", *ms).WithHint("below 0 it stays for ever")
		}
		s.idle.Store(-1)
		if *ms >= 0 {
			s.idle.Store(*ms * int64(time.Millisecond))
		}
	}
	now := s.settings()
	s.log.Info("set", "level", now.LogLevel, "idleMs", *now.IdleMS)
	return now, nil
}

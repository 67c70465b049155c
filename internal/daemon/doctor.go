package daemon

import (
	"context"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/task"
)

const defaultModel = task.DefaultModel

// Info implements the door's System.
func (s *System) Info(context.Context) (api.DaemonInfo, error) {
	if s.leaving.Load() {
		return api.DaemonInfo{}, api.Errorf(api.KindUnavailable, "the daemon of %s is stopping", s.dir)
	}
	warm, wanted := s.sandboxes.Warm()
	return api.DaemonInfo{
		Version: Version(), Owner: s.owner.ID, PID: os.Getpid(), DataDir: string(s.dir),
		Sandboxes: s.sandboxes.Alive(), Tasks: s.tasks.Running(),
		Warm: warm, WarmWanted: wanted,
		URL: s.url(), Settings: s.settings(), Models: modelSettings(s.models.getenv),
		Forges: forgeSettings(s.models.getenv, tokenVariables(s.cfg.Forges)),
	}, nil
}

// Ready implements the door's System: the template is there and the pool is full.
func (s *System) Ready(context.Context) error {
	select {
	case <-s.prepared:
		if s.unfit != nil {
			return api.Errorf(api.KindOf(s.unfit), "this host runs no sandbox of the default kind: %w", s.unfit).WithHint("hortus doctor says more.")
		}
	default:
		return api.Errorf(api.KindUnavailable, "the host template is being prepared")
	}
	if warm, wanted := s.sandboxes.Warm(); warm < wanted {
		return api.Errorf(api.KindUnavailable, "%d of %d guests are warm", warm, wanted)
	}
	return nil
}

// Doctor implements the door's System: what this host can do, and why not where
// it cannot.
func (s *System) Doctor(ctx context.Context) (api.Doctor, error) {
	d := api.Doctor{
		Version: Version(), Kernel: kernel(), User: userName(), DataDir: string(s.dir),
		Backends: s.sandboxes.Reports(ctx),
	}
	if b, _, why, err := s.sandboxes.Choose(ctx, ""); err == nil {
		d.Auto, d.AutoWhy = b.Name(), why
	} else {
		d.AutoWhy = err.Error()
		if hint := api.HintOf(err); hint != "" {
			d.AutoWhy += "; " + hint
		}
	}
	d.Template = s.host.Report(ctx)
	s.shelf.fill(ctx, &d.Template)
	d.Models = s.models.reports()
	return d, nil
}

// Bench implements the door's System.
func (s *System) Bench(ctx context.Context, req api.BenchRequest, report func(api.BenchRow), progress func(api.BenchProgress)) error {
	return s.bench.Run(ctx, req, report, progress)
}

func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:])
}

func userName() string {
	id := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(id); err == nil {
		return u.Username + " (" + id + ")"
	}
	return id
}

package daemon

import (
	"context"
	"strconv"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/admission"
)

// Room bounds what all sandboxes together may be promised. Zero takes the default.
type Room struct {
	MaxSandboxes                           int
	MemoryShare, Overcommit, CPUOvercommit float64
	Patience                               time.Duration
}

// roomOf reads a Room from what is set.
func roomOf(conf *config.Config) (r Room, err error) {
	number := func(key string) (f float64) {
		if err == nil {
			if f, err = strconv.ParseFloat(conf.Get(key).Text, 64); err != nil {
				err = api.Errorf(api.KindInvalid, "%s: %w", key, err)
			}
		}
		return f
	}
	r = Room{
		MaxSandboxes: int(number("daemon.max-sandboxes")), MemoryShare: number("daemon.memory-share"),
		Overcommit: number("daemon.overcommit"), CPUOvercommit: number("daemon.cpu-overcommit"),
	}
	if err == nil {
		r.Patience, err = config.ParseDuration(conf.Get("daemon.patience").Text)
	}
	return r, err
}

// openGate makes what sandboxes wait at for room on this host.
func (s *System) openGate() (err error) {
	r := s.cfg.Room
	s.gate, err = admission.Open(admission.Config{
		Measure: admission.Measurer(string(s.dir)), MaxSandboxes: r.MaxSandboxes, MemoryShare: r.MemoryShare,
		Overcommit: r.Overcommit, CPUOvercommit: r.CPUOvercommit, Patience: r.Patience,
		Waited: s.telemetry.Waited, Logger: s.log,
	})
	if err == nil {
		s.onClose(func(context.Context) error { s.gate.Close(); return nil })
	}
	return err
}

// room gives the manager the gate in the manager's words.
type room struct{ *admission.Gate }

var _ sandbox.Admission = room{}

// Try implements sandbox.Admission.
func (r room) Try(n sandbox.Need) func() { return r.Gate.Try(admission.Request(n)) }

// Admit implements sandbox.Admission.
func (r room) Admit(ctx context.Context, n sandbox.Need, told func(api.WaitingEvent)) (func(), error) {
	return r.Gate.Admit(ctx, admission.Request(n), told)
}

// Hold implements sandbox.Admission.
func (r room) Hold(n sandbox.Need) func() { return r.Gate.Hold(admission.Request(n)) }

package service

import (
	"context"
	"fmt"
	"strings"
	"time"

	"hortus.dev/api"
)

// keepWarm prepares the template and boots guests for sandboxes of the usual kind. On a new
// machine the preparation can take a second, which no client waits for.
func (s *Service) keepWarm(ctx context.Context) {
	// On a host that cannot run sandboxes, creating one says why.
	err := s.cfg.Warmer.KeepWarm(ctx, s.cfg.Usual)
	if err != nil {
		s.log.Info("no pooled guests", "reason", err)
	}
	s.unfit = err
	close(s.prepared)
	if err == nil && s.cfg.Warmer.AwaitWarm(ctx) == nil {
		s.isWarm()
	}
}

// isWarm records that nothing is missing.
func (s *Service) isWarm() { s.warmOnce.Do(func() { close(s.warm) }) }

// Prepared waits until it is known whether this host runs sandboxes of the usual kind, and
// returns why not.
func (s *Service) Prepared(ctx context.Context) error {
	select {
	case <-s.prepared:
		return s.unfit
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ready returns nil when the template is there and the pool is full.
func (s *Service) Ready(context.Context) error {
	select {
	case <-s.prepared:
		if s.unfit != nil {
			return api.Errorf(api.KindOf(s.unfit), "this host runs no sandbox of the default kind: %w", s.unfit).WithHint("find the reason: hortus doctor")
		}
	default:
		return api.Errorf(api.KindUnavailable, "the host template is being prepared")
	}
	if warm, wanted := s.cfg.Warmer.Warm(); warm < wanted {
		return api.Errorf(api.KindUnavailable, "%d of %d guests are warm", warm, wanted)
	}
	return nil
}

// Missing lists what the daemon lacks to serve at full speed. Once nothing was missing, a pool
// that is being refilled does not count: every new sandbox would take the daemon out of
// service.
func (s *Service) Missing() (out []string) {
	if s.leaving.Load() {
		return []string{"it is stopping"}
	}
	select {
	case <-s.warm:
		return nil
	default:
	}
	select {
	case <-s.prepared:
		if s.unfit != nil {
			return []string{"a backend: this host runs no sandbox of the default kind"}
		}
	default:
		return []string{"template host: it is being prepared"}
	}
	if warm, wanted := s.cfg.Warmer.Warm(); warm < wanted {
		return []string{fmt.Sprintf("pool: %d of %d guests are warm", warm, wanted)}
	}
	s.isWarm()
	return nil
}

// notifyReady notifies the service manager when nothing is missing. If something is missing
// after ReadyWithin, or always will be, it sends READY=1 with what is missing, because the
// manager would kill a daemon that serves. It returns when it has reported that nothing is
// missing, or ctx ends.
func (s *Service) notifyReady(ctx context.Context) {
	within := s.cfg.ReadyWithin
	// Twice the time, so that the notification is never late.
	s.notify(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (within+within).Microseconds()), "serving, not ready yet: "+s.reason())
	late := time.NewTimer(within)
	defer late.Stop()
	prepared := s.prepared
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.warm:
			s.notify("READY=1", "ready")
			return
		case <-prepared:
			prepared = nil
			if s.unfit == nil {
				continue
			}
		case <-late.C:
		}
		break
	}
	select { // both may be ready
	case <-s.warm:
		s.notify("READY=1", "ready")
		return
	default:
	}
	missing := s.reason()
	s.log.Warn("the daemon serves and is not ready", "missing", missing)
	s.notify("READY=1", "serving, not ready: "+missing)
	select {
	case <-ctx.Done():
	case <-s.warm:
		s.notify("", "ready")
	}
}

// reason returns what is missing and, if it is known, why. Only the service manager gets it:
// it may contain details of this host.
func (s *Service) reason() string {
	out := strings.Join(s.Missing(), ", ")
	var why error
	select {
	case <-s.prepared:
		why = s.unfit
	default:
	}
	if why == nil {
		why = s.cfg.Warmer.Cold()
	}
	if why != nil {
		out += ": " + why.Error()
	}
	return out
}

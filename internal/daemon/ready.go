package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// keepWarm makes the template and begins to boot guests for sandboxes of the default
// kind. Finding out what that is can take a second on a new machine, which nobody waits
// for.
func (s *System) keepWarm() {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		// A host that can run no sandbox says so to whoever asks for one.
		err := s.sandboxes.KeepWarm(ctx, s.cfg.Usual)
		if err != nil {
			s.log.Info("no guests are booted ahead", "reason", err)
		}
		s.unfit = err
		close(s.prepared)
		if err == nil && s.sandboxes.AwaitWarm(ctx) == nil {
			s.isWarm()
		}
	})
	s.onClose(func(context.Context) error {
		cancel()
		wg.Wait()
		return nil
	})
}

// isWarm notes that nothing is missing.
func (s *System) isWarm() { s.warmOnce.Do(func() { close(s.warm) }) }

// readyz answers load balancers.
func (s *System) readyz(w http.ResponseWriter) {
	missing := s.missing()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if len(missing) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(struct {
		Ready   bool     `json:"ready"`
		Missing []string `json:"missing,omitempty"`
	}{len(missing) == 0, missing})
}

// missing names what the daemon lacks before it serves at full speed. Once there was
// nothing, a pool that is being filled again is no reason any more: it would take the
// daemon out of service with every sandbox.
func (s *System) missing() (out []string) {
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
	if warm, wanted := s.sandboxes.Warm(); warm < wanted {
		return []string{fmt.Sprintf("pool: %d of %d guests are warm", warm, wanted)}
	}
	s.isWarm()
	return nil
}

// tellReady tells the service manager that the daemon is ready, when it is: when
// /readyz says so. What is not to be had in time, or never, is no reason to have the
// daemon killed, which serves: then the manager is told too, and what is missing. It
// returns when it has told that nothing is missing, or ctx ends.
func (s *System) tellReady(ctx context.Context) {
	within := s.cfg.ReadyWithin
	// As much again for the telling, which is a matter of a moment.
	s.tell(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (within+within).Microseconds()), "serving, not ready yet: "+s.lacks())
	late := time.NewTimer(within)
	defer late.Stop()
	prepared := s.prepared
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.warm:
			s.tell("READY=1", "ready")
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
	select { // both may have come
	case <-s.warm:
		s.tell("READY=1", "ready")
		return
	default:
	}
	lacks := s.lacks()
	s.log.Warn("the daemon serves and is not ready", "missing", lacks)
	s.tell("READY=1", "serving, not ready: "+lacks)
	select {
	case <-ctx.Done():
	case <-s.warm:
		s.tell("", "ready")
	}
}

// lacks says for the service manager what is missing and, where that is known, why.
// Strangers are not told why.
func (s *System) lacks() string {
	out := strings.Join(s.missing(), ", ")
	var why error
	select {
	case <-s.prepared:
		why = s.unfit
	default:
	}
	if why == nil {
		why = s.sandboxes.Cold()
	}
	if why != nil {
		out += ": " + why.Error()
	}
	return out
}

// maxStatus bounds a status, in bytes.
const maxStatus = 512

// tell tells the service manager a state, where there is one to be told, and a status
// for people.
func (s *System) tell(state, status string) {
	if s.cfg.Getenv == nil {
		return
	}
	status = strings.Map(func(r rune) rune { // a line is an assignment of its own
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(status, "?"))
	if len(status) > maxStatus {
		status = strings.ToValidUTF8(status[:maxStatus], "")
	}
	tellManager(s.cfg.Getenv, s.log, strings.TrimPrefix(state+"\nSTATUS="+status, "\n"))
}

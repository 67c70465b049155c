package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/platform/inventory"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/manager"
)

// shelf knows what the host template's programs and libraries are. It asks them
// once for each fingerprint and keeps the answer in a file.
type shelf struct {
	file      string
	templates *templates
	sandboxes *manager.Manager
	debian    bool

	mu     sync.Mutex // one asks at a time
	digest string
	answer inventory.Answer
}

// stored is what the file holds. Script is what was asked, so that a build that
// asks something else asks again.
type stored struct {
	Digest string           `json:"digest"`
	Script string           `json:"script"`
	Answer inventory.Answer `json:"answer"`
}

// Bounds of asking: askFor is what the programs get, askWithin the whole of it.
const (
	askFor    = 10 * time.Second
	askWithin = 20 * time.Second
	killAsked = 20 * time.Second
	maxStored = 1 << 20
)

// fill adds to a template's report what its programs say of themselves.
func (s *shelf) fill(ctx context.Context, r *api.TemplateReport) {
	if r.Error != "" {
		return
	}
	a, err := s.of(ctx, r.Digest)
	if err != nil {
		r.NotAsked = err.Error()
		return
	}
	a.Fill(r, s.debian)
	if !a.Whole {
		r.NotAsked = "not every program answered in time"
	}
}

func (s *shelf) of(ctx context.Context, digest string) (inventory.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.digest == digest {
		return s.answer, nil
	}
	if a, ok := s.load(digest); ok {
		s.digest, s.answer = digest, a
		return a, nil
	}
	out, err := s.ask(ctx)
	if err != nil {
		return inventory.Answer{}, err
	}
	a := inventory.Read(out)
	if a.Whole { // else somebody may have more luck later
		s.digest, s.answer = digest, a
		s.save(digest, a)
	}
	return a, nil
}

func (s *shelf) load(digest string) (inventory.Answer, bool) {
	f, err := os.Open(s.file)
	if err != nil {
		return inventory.Answer{}, false
	}
	defer f.Close()
	var was stored
	// A file that cannot be read, or was cut short, is as good as none.
	err = json.NewDecoder(io.LimitReader(f, maxStored)).Decode(&was)
	return was.Answer, err == nil && was.Digest == digest && was.Script == inventory.Script()
}

func (s *shelf) save(digest string, a inventory.Answer) {
	b, err := json.Marshal(stored{digest, inventory.Script(), a})
	if err != nil || len(b) > maxStored {
		return
	}
	// Written aside and renamed; without it the next one asks again.
	tmp := s.file + ".new"
	if os.WriteFile(tmp, b, 0o600) == nil {
		_ = os.Rename(tmp, s.file)
	}
}

// ask runs the script in a sandbox of the strongest backend. It is the daemon's
// own look, like a probe: nobody's sandbox, so that it has no row and no events.
// Should the daemon die meanwhile, the next one finds it by its run directory.
func (s *shelf) ask(ctx context.Context) (_ []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	b, _, _, err := s.sandboxes.Choose(ctx, "")
	if err != nil {
		return nil, err
	}
	digests, err := s.templates.Layers(ctx, "host")
	if err != nil {
		return nil, err
	}
	limits := api.DefaultLimits()
	limits.CPUs = 0 // they all ask at the same time
	m, err := b.Start(ctx, sandbox.Spec{ID: api.NewSandboxID(), Layers: digests, Limits: limits, Hostname: "sandbox"})
	if err != nil {
		return nil, err
	}
	link := m.Link()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killAsked)
		defer cancel()
		_, kerr := m.Kill(ctx)
		err = errors.Join(err, link.Close(), kerr)
	}()
	guest := envd.NewClient(envd.ClientConfig{Dial: link.Open})
	defer guest.Close()
	no := false
	ps, err := guest.Start(ctx, &envd.StartRequest{Stdin: &no,
		Process: &envd.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", inventory.Script()}},
	}, envd.StartOptions{Timeout: askFor, OutputLimit: inventory.MaxOutput})
	if err != nil {
		return nil, guestError(err)
	}
	defer ps.Close()
	var out []byte
	for {
		ev, err := ps.Next()
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, guestError(err)
		case ev.End != nil:
			return out, nil
		case ev.Data != nil && len(out) < inventory.MaxOutput:
			out = append(out, ev.Data.Stdout...)
		}
	}
}

// isDebian says whether this machine's packages are Debian's or a descendant's.
func isDebian(root string) bool {
	_, err := os.Stat(filepath.Join(root, "usr/bin/apt-get"))
	return err == nil
}

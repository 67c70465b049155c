package template

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/platform/inventory"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/runner"
	"hortus.dev/internal/storage/image"
)

// Inventory has the versions and libraries that the host template's programs report. It
// asks them once for each fingerprint of the template and stores the answer in a file.
type Inventory struct {
	InventoryConfig

	mu     sync.Mutex // held while the programs are asked
	digest string
	answer inventory.Answer
}

// InventoryConfig is what an inventory needs.
type InventoryConfig struct {
	// File is the path of the stored answer.
	File      string
	Templates *Templates
	Backends  Chooser
	// Debian is true if the template's packages are Debian's.
	Debian bool
}

// NewInventory creates an inventory.
func NewInventory(cfg InventoryConfig) *Inventory { return &Inventory{InventoryConfig: cfg} }

// inventoryFile is the content of the file. A build with another script asks again.
type inventoryFile struct {
	Digest string           `json:"digest"`
	Script string           `json:"script"`
	Answer inventory.Answer `json:"answer"`
}

const (
	scriptTimeout = 30 * time.Second // of the programs
	askTimeout    = time.Minute      // of the sandbox, programs included
	killTimeout   = 20 * time.Second
	maxStored     = 1 << 20 // bytes
)

// Fill adds to a template's report what its programs report.
func (s *Inventory) Fill(ctx context.Context, r *api.TemplateReport) {
	if r.Error != "" {
		return
	}
	a, err := s.of(ctx, r.Digest)
	if err != nil {
		r.NotAsked = err.Error()
		return
	}
	a.Fill(r, s.Debian)
	if !a.Whole {
		r.NotAsked = "timeout: some programs did not respond"
	}
}

func (s *Inventory) of(ctx context.Context, digest string) (inventory.Answer, error) {
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
	if a.Whole { // otherwise the next call asks again
		s.digest, s.answer = digest, a
		s.save(digest, a)
	}
	return a, nil
}

func (s *Inventory) load(digest string) (inventory.Answer, bool) {
	f, err := os.Open(s.File)
	if err != nil {
		return inventory.Answer{}, false
	}
	defer f.Close()
	var was inventoryFile
	// A damaged file is ignored.
	err = json.NewDecoder(io.LimitReader(f, maxStored)).Decode(&was)
	return was.Answer, err == nil && was.Digest == digest && was.Script == inventory.Script()
}

func (s *Inventory) save(digest string, a inventory.Answer) {
	b, err := json.Marshal(inventoryFile{digest, inventory.Script(), a})
	if err != nil || len(b) > maxStored {
		return
	}
	// Best effort: without the file the next daemon asks again.
	tmp := s.File + ".new"
	if os.WriteFile(tmp, b, 0o600) == nil {
		_ = os.Rename(tmp, s.File)
	}
}

// ask runs the script in a sandbox of the strongest backend. Like a probe, the sandbox has
// no row and no events. If the daemon is killed meanwhile, the next one reclaims the
// sandbox by its run directory.
func (s *Inventory) ask(ctx context.Context) (_ []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	b, report, _, err := s.Backends.Choose(ctx, "")
	if err != nil {
		return nil, err
	}
	digests, err := s.Templates.Layers(ctx, image.HostName)
	if err != nil {
		return nil, err
	}
	limits := api.DefaultLimits()
	limits.CPUs = 0 // the programs run at the same time
	m, err := b.Start(ctx, sandbox.Spec{ID: api.NewSandboxID(), Layers: digests, Limits: limits, Hostname: "sandbox", Egress: sandbox.EgressOf(report)})
	if err != nil {
		return nil, err
	}
	link := m.Link()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
		defer cancel()
		_, kerr := m.Kill(ctx)
		err = errors.Join(err, link.Close(), kerr)
	}()
	guest := envd.NewClient(envd.ClientConfig{Dial: link.Open})
	defer guest.Close()
	no := false
	ps, err := guest.Start(ctx, &envd.StartRequest{Stdin: &no,
		Process: &envd.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", inventory.Script()}},
	}, envd.StartOptions{Timeout: scriptTimeout, OutputLimit: inventory.MaxOutput})
	if err != nil {
		return nil, envd.APIError(err)
	}
	defer ps.Close()
	out := runner.Text{Max: inventory.MaxOutput}
	if err := runner.Collect(ps, &out, &runner.Text{}); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

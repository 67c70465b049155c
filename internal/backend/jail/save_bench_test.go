package jail_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
)

const baseDigest = layer.Digest("sha256-2222222222222222222222222222222222222222222222222222222222222222")

// BenchmarkForkFiles forks the files of a sandbox that changed 100 of 44,000: from
// the call of Save to the output of the first command of the child. Saving is the
// time of Save, paused what the parent was paused of it, and start is, interleaved,
// a plain start with the same command.
func BenchmarkForkFiles(b *testing.B) {
	e := newEnv(b)
	saves(b, e)
	_, err := e.layers.Put(context.Background(), baseDigest, func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		for i := range 440 {
			d := filepath.Join(root, "base", fmt.Sprint(i))
			if err := os.MkdirAll(d, 0o755); err != nil {
				return layer.Tree{}, err
			}
			for j := range 100 {
				if err := os.WriteFile(filepath.Join(d, fmt.Sprint(j)), []byte("of the base"), 0o644); err != nil {
					return layer.Tree{}, err
				}
			}
		}
		return layer.Tree{Root: root}, nil
	})
	if err != nil {
		b.Fatal(err)
	}
	user := "user"
	if isRoot() {
		user = "root"
	}
	on := func() sandbox.Spec {
		return sandbox.Spec{ID: api.NewSandboxID(), Layers: []layer.Digest{testDigest, baseDigest}, Limits: limits(), Hostname: "garden"}
	}
	parent, _ := e.start(b, func(s *sandbox.Spec) { *s = on() })
	sh(b, parent, user, "for i in $(seq 100); do head -c 4000 /dev/zero | tr '\\0' x >/base/$i/7; done")
	first := func(m sandbox.Machine) {
		if rep, err := try(m, request{Args: []string{"/usr/bin/true"}}); err != nil || rep.Code != 0 {
			b.Fatal(rep, err)
		}
	}
	end := func(m sandbox.Machine) {
		b.Cleanup(func() { m.Kill(context.Background()) })
		if _, err := m.Kill(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	var fork, saving, paused, start []time.Duration
	for b.Loop() {
		t0 := time.Now()
		m, err := e.Start(context.Background(), on())
		if err != nil {
			b.Fatal(err)
		}
		first(m)
		start = append(start, time.Since(t0))
		end(m)
		dir := b.TempDir()
		t0 = time.Now()
		s, err := parent.(sandbox.Saver).Save(context.Background(), dir, sandbox.SaveOptions{})
		if err != nil {
			b.Fatal(err)
		}
		saving, paused = append(saving, time.Since(t0)), append(paused, s.Paused)
		p, err := e.Restore(context.Background(), on(), dir)
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Claim(context.Background(), nil); err != nil {
			b.Fatal(err)
		}
		first(p)
		fork = append(fork, time.Since(t0))
		end(p)
	}
	report(b, "fork", fork)
	report(b, "save", saving)
	report(b, "paused", paused)
	report(b, "start", start)
}

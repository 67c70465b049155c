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
		s, err := parent.Save(context.Background(), dir, sandbox.SaveOptions{})
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

// BenchmarkForksOfManyFiles forks a sandbox that wrote one file of 64 MB and 20,000 small ones: as children share it, and as
// each gets a copy. Paused is the pause of the parent, child the time from the start of a child to the output of its
// first command, and grandchild the same for a fork of the child. Ten files change before each fork.
func BenchmarkForksOfManyFiles(b *testing.B) {
	e := newEnv(b)
	sharesLayers(b, e)
	l := limits()
	l.DiskBytes, l.MemoryBytes = 1<<30, 1<<30
	on := func() sandbox.Spec {
		return sandbox.Spec{ID: api.NewSandboxID(), Layers: specLayers(), Limits: l, Hostname: "garden"}
	}
	parent, _ := e.start(b, func(s *sandbox.Spec) { *s = on() })
	sh(b, parent, "root", "head -c 64M /dev/urandom >/srv/big; for d in $(seq 200); do mkdir -p /srv/m/$d; for i in $(seq 100); do echo $d $i >/srv/m/$d/$i; done; done")
	times := map[string][]time.Duration{}
	child := func(m sandbox.Machine, what string, o sandbox.SaveOptions) sandbox.Machine {
		dir := b.TempDir()
		s, err := m.Save(b.Context(), dir, o)
		if err != nil {
			b.Fatal(err)
		}
		times[what+"-paused"] = append(times[what+"-paused"], s.Paused)
		t0 := time.Now()
		p, err := e.Restore(b.Context(), on(), dir)
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Claim(b.Context(), nil); err != nil {
			b.Fatal(err)
		}
		if rep, err := try(p, request{Args: []string{"/usr/bin/cat", "/srv/m/7/7"}}); err != nil || rep.Out != "7 7\n" {
			b.Fatal(rep, err)
		}
		times[what] = append(times[what], time.Since(t0))
		return p
	}
	first := b.TempDir()
	s, err := parent.Save(b.Context(), first, sandbox.SaveOptions{Fork: true})
	if err != nil {
		b.Fatal(err)
	}
	times["first-fork-paused"] = append(times["first-fork-paused"], s.Paused)
	for b.Loop() {
		sh(b, parent, "root", "for i in $(seq 10); do date +%N >/srv/m/$i/1; done")
		for what, o := range map[string]sandbox.SaveOptions{"shared": {Fork: true}, "copied": {Fork: true, CopyMemory: true}} {
			c := child(parent, what+"-child", o)
			g := child(c, what+"-grandchild", o)
			for _, m := range []sandbox.Machine{g, c} {
				if _, err := m.Kill(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	for what, took := range times {
		report(b, what, took)
	}
}

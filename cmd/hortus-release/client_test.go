package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/test/tier"
)

// clients calls f for each system that has a client only, once for those with the same files.
func clients(t *testing.T, f func(t *testing.T, to target)) {
	for _, to := range targets {
		if to.os == "linux" || to == (target{"darwin", "amd64"}) {
			continue // Linux is what the other tests run on, and darwin/arm64 has the same files
		}
		t.Run(to.os, func(t *testing.T) { f(t, to) })
	}
}

// The clients for other systems are built by nothing else than a release.
func TestClientsBuild(t *testing.T) {
	tier.Soak(t) // minutes: it compiles everything, the standard library too
	clients(t, func(t *testing.T, to target) {
		b := builder{target: to, version: "test"}
		if err := b.gobuild(t.Context(), "../..", filepath.Join(t.TempDir(), "hortus"), "./cmd/hortus"); err != nil {
			t.Error(err)
		}
	})
}

// Each package of a client has files for its system, and none is of a part that only Linux has.
func TestClientsHavePackages(t *testing.T) {
	only := []string{"hortus.dev/internal/backend/jail", "hortus.dev/internal/daemon"}
	packages := func(t *testing.T, to target) string {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/hortus")
		cmd.Dir, cmd.Env = "../..", append(os.Environ(), "GOOS="+to.os, "GOARCH="+to.arch, "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go list: %v\n%s", err, out)
		}
		return string(out)
	}
	linux := packages(t, target{"linux", "amd64"})
	for _, p := range only {
		if !strings.Contains(linux, "\n"+p+"\n") {
			t.Errorf("%s is not a part of Hortus on Linux: name another one here", p)
		}
	}
	clients(t, func(t *testing.T, to target) {
		out := packages(t, to)
		for _, p := range only {
			if strings.Contains(out, "\n"+p+"\n") {
				t.Errorf("a client of %s contains %s", to.os, p)
			}
		}
	})
}

package main

import (
	"path/filepath"
	"testing"
)

// The clients for other systems are built by nothing else than a release.
func TestClientsBuild(t *testing.T) {
	for _, to := range targets {
		if to.os == "linux" || to == (target{"darwin", "amd64"}) {
			continue // Linux is what the other tests run on, and darwin/arm64 has the same files
		}
		t.Run(to.os, func(t *testing.T) {
			b := builder{target: to, version: "test"}
			if err := b.gobuild(t.Context(), "../..", filepath.Join(t.TempDir(), "hortus"), "./cmd/hortus"); err != nil {
				t.Error(err)
			}
		})
	}
}

package embedded_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/internal/platform/embedded"
	"hortus.dev/test/tools"
)

// TestPacked: what was packed is what was there, and the line before it says so.
func TestPacked(t *testing.T) {
	want, err := os.ReadFile(filepath.Join(tools.Dir(t), tools.Runsc))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := embedded.Pack(want)
	if err != nil {
		t.Fatal(err)
	}
	again, err := embedded.Pack(want)
	if err != nil || string(again) != string(packed) {
		t.Errorf("packed twice, it differs: %v", err)
	}
	p, err := embedded.Parse(packed)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	h := sha256.New()
	n, err := io.Copy(h, r)
	if err != nil || n != p.Size || n != int64(len(want)) || hex.EncodeToString(h.Sum(nil)) != p.SHA256 || p.GVisor == "" {
		t.Errorf("%d bytes of %d, %v: %+v", n, len(want), err, p.GVisor)
	}
	if len(packed) > len(want)/2 {
		t.Errorf("%d bytes were packed into %d", len(want), len(packed))
	}
	if _, err := embedded.Pack([]byte("#!/bin/sh\n")); err == nil {
		t.Error("a program without gVisor was packed")
	}
}

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// inputs makes files with times and modes that must not affect the output.
func inputs(t *testing.T, at time.Time, mode os.FileMode) []file {
	t.Helper()
	dir := t.TempDir()
	var out []file
	for _, name := range []string{"LICENSE", "hortus"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("content of "+name), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		out = append(out, file{name, path, 0o755})
	}
	return out
}

func TestArchivesAreTheSame(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 1, 0, time.UTC)
	one, two := inputs(t, at, 0o600), inputs(t, at.Add(time.Hour), 0o644)
	for name, write := range map[string]func(io.Writer, string, []file, time.Time) error{"tar": writeTar, "zip": writeZip} {
		var a, b, c bytes.Buffer
		for buf, files := range map[*bytes.Buffer][]file{&a: one, &b: two} {
			if err := write(buf, "d", files, at); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Errorf("%s: two archives of the same content differ", name)
		}
		if err := write(&c, "d", one, at.Add(time.Minute)); err != nil || bytes.Equal(a.Bytes(), c.Bytes()) {
			t.Errorf("%s: the time is not in the archive, %v", name, err)
		}
		if name == "zip" {
			z, err := zip.NewReader(bytes.NewReader(a.Bytes()), int64(a.Len()))
			if err != nil || len(z.File) != 2 || z.File[1].Name != "d/hortus" || z.File[1].Mode() != 0o755 {
				t.Errorf("%v, %v", z, err)
			}
			continue
		}
		g, err := gzip.NewReader(&a)
		if err != nil {
			t.Fatal(err)
		}
		r := tar.NewReader(g)
		for _, want := range []string{"d/LICENSE", "d/hortus"} {
			h, err := r.Next()
			if err != nil || h.Name != want || h.Mode != 0o755 || h.Uid != 0 || !h.ModTime.Equal(at) {
				t.Errorf("%+v, %v", h, err)
			}
		}
	}
	if err := writeTar(io.Discard, "d", []file{{"x", "/no/such/file", 0o644}}, at); err == nil {
		t.Error("a file that is missing is no error")
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{}, {"-version", "a/b"}, {"-version", "-x"}, {"-version", "v1", "-target", "plan9/386"}} {
		if err := run(t.Context(), args); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := clearDir(dir); err == nil {
		t.Error("a directory with something else was cleared")
	}
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	if _, err := modTime(t.Context()); err == nil {
		t.Error("a time before zip was accepted")
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1767225600")
	if at, err := modTime(t.Context()); err != nil || at.Year() != 2026 {
		t.Errorf("%v, %v", at, err)
	}
}

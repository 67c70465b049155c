package ocitest

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Entry is one entry of a layer's archive.
type Entry struct {
	tar.Header
	Data string
}

// Dir is a directory, File a regular file, Program an executable one, Link a symbolic link and
// Hard a hard link.
func Dir(name string) Entry {
	return Entry{Header: tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}}
}
func File(name, data string) Entry {
	return Entry{Header: tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, Data: data}
}
func Program(name, data string) Entry {
	return Entry{Header: tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}, Data: data}
}
func Link(name, to string) Entry {
	return Entry{Header: tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}}
}
func Hard(name, to string) Entry {
	return Entry{Header: tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}}
}

// With changes the header of an entry.
func (e Entry) With(f func(*tar.Header)) Entry {
	f(&e.Header)
	return e
}

// Layer makes a layer.
func Layer(t testing.TB, entries ...Entry) v1.Layer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := e.Header
		h.Size = int64(len(e.Data))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.Data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Image makes an image of layers for this machine.
func Image(t testing.TB, config v1.Config, layers ...v1.Layer) v1.Image {
	t.Helper()
	return ImageFor(t, runtime.GOARCH, config, layers...)
}

// ImageFor makes an image for an architecture.
func ImageFor(t testing.TB, architecture string, config v1.Config, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	f, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	f = f.DeepCopy()
	f.OS, f.Architecture, f.Config = "linux", architecture, config
	if img, err = mutate.ConfigFile(img, f); err != nil {
		t.Fatal(err)
	}
	return img
}

// Index makes an index of images, each with the platform of its configuration.
func Index(t testing.TB, images ...v1.Image) v1.ImageIndex {
	t.Helper()
	index := v1.ImageIndex(empty.Index)
	for _, img := range images {
		f, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: f.Platform()}})
	}
	return index
}

// Save writes a docker save archive.
func Save(t testing.TB, path string, img v1.Image) {
	t.Helper()
	ref, err := name.NewTag("example.org/test:1")
	if err == nil {
		err = tarball.WriteToFile(path, ref, img)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Layout writes an OCI layout.
func Layout(t testing.TB, dir string, index v1.ImageIndex) {
	t.Helper()
	if _, err := layout.Write(dir, index); err != nil {
		t.Fatal(err)
	}
}

// Registry is a registry of this process.
type Registry struct {
	// Host is its address. It is on loopback, so that clients use HTTP.
	Host string
	// User and Password are required if they are not empty.
	User, Password string
	// Requests counts requests, Blobs those of blobs.
	Requests, Blobs atomic.Int64
	// Hook, if it is set, responds to a request and returns true, or returns false.
	Hook func(w http.ResponseWriter, r *http.Request) bool
}

// NewRegistry starts a registry, which ends with the test.
func NewRegistry(t testing.TB) *Registry {
	t.Helper()
	r := &Registry{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.Requests.Add(1)
		if strings.Contains(req.URL.Path, "/blobs/") && req.Method == http.MethodGet {
			r.Blobs.Add(1)
		}
		if user, password, _ := req.BasicAuth(); r.User != "" && (user != r.User || password != r.Password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.Hook != nil && r.Hook(w, req) {
			return
		}
		inner.ServeHTTP(w, req)
	}))
	t.Cleanup(s.Close)
	r.Host = strings.TrimPrefix(s.URL, "http://")
	return r
}

// Auth is the value of "auth" in a Docker configuration.
func (r *Registry) Auth() string {
	return base64.StdEncoding.EncodeToString([]byte(r.User + ":" + r.Password))
}

// Push stores an image. It must be called before User is set. It returns the reference.
func (r *Registry) Push(t testing.TB, repository string, what any) string {
	t.Helper()
	full := r.Host + "/" + repository
	ref, err := name.ParseReference(full)
	if err == nil {
		switch x := what.(type) {
		case v1.Image:
			err = remote.Write(ref, x)
		case v1.ImageIndex:
			err = remote.WriteIndex(ref, x)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return full
}

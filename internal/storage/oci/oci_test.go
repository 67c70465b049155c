package oci

import (
	"archive/tar"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/oci/settings"
	"hortus.dev/internal/storage/oci/source"
	"hortus.dev/test/ocitest"
)

// open opens the images of a new directory.
func open(t *testing.T, change func(*Config)) *Images {
	t.Helper()
	layers, err := layer.Open(filepath.Join(t.TempDir(), "layers"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(layers.Close)
	cfg := Config{Dir: filepath.Join(t.TempDir(), "images"), Layers: layers}
	if change != nil {
		change(&cfg)
	}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func pull(t *testing.T, s *Images, req api.PullImage) api.Image {
	t.Helper()
	img, err := s.Pull(t.Context(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// view opens the files of an image.
func view(t *testing.T, s *Images, img api.Image) *stack {
	t.Helper()
	for _, d := range img.Layers {
		_, lease, err := s.cfg.Layers.Lease(layer.Digest(d))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(lease.Release)
	}
	v, _, err := openStack(s.cfg.Layers, digests(img))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.close)
	return v
}

func read(t *testing.T, v *stack, name string) string {
	t.Helper()
	text, err := v.read(name)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return text
}

var config = v1.Config{
	Env: []string{"PATH=/opt/app/bin:/bin", "MODE=test", "HOME=/wrong"}, Entrypoint: []string{"/bin/app"}, Cmd: []string{"serve", "--port=1"},
	User: "app", WorkingDir: "/srv/app",
}

// base is a layer with users.
func base(t *testing.T) v1.Layer {
	return ocitest.Layer(t, ocitest.Dir("etc/"), ocitest.Dir("bin/"), ocitest.Program("bin/app", "program"),
		ocitest.File("etc/passwd", "root:x:0:0:root:/root:/bin/sh\napp:x:70:71:App:/var/lib/app:/bin/sh\n"),
		ocitest.File("etc/group", "root:x:0:\napp:x:71:\nextra:x:72:app,other\n"),
		ocitest.File("etc/motd", "one"), ocitest.Dir("data/"), ocitest.File("data/old", "old"), ocitest.File("gone", "gone"))
}

// TestSources pulls one image from each kind of source: its files, users and settings are the
// same, and so are its layers.
func TestSources(t *testing.T) {
	upper := ocitest.Layer(t, ocitest.File(".wh.gone", ""), ocitest.Dir("data/"), ocitest.File("data/.wh..wh..opq", ""), ocitest.File("data/new", "new"),
		ocitest.File("etc/motd", "two"), ocitest.Hard("etc/motd2", "etc/motd"))
	img := ocitest.Image(t, config, base(t), upper)
	dir := t.TempDir()
	ocitest.Save(t, dir+"/saved.tar", img)
	ocitest.Layout(t, dir+"/layout", ocitest.Index(t, img, ocitest.ImageFor(t, "s390x", config, base(t))))
	reg := ocitest.NewRegistry(t)
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, nil)
	var first api.Image
	for _, ref := range []string{
		reg.Push(t, "app:1", img), reg.Push(t, "multi:1", ocitest.Index(t, ocitest.ImageFor(t, "s390x", config, base(t)), img)),
		reg.Host + "/app@" + digest.String(), dir + "/saved.tar", dir + "/layout",
	} {
		t.Run(filepath.Base(ref), func(t *testing.T) {
			got := pull(t, s, api.PullImage{Reference: ref})
			if first.ID == "" {
				first = got
			}
			if !slices.Equal(got.Layers, first.Layers) || len(got.Layers) != 4 {
				t.Errorf("layers %q, those of the first source are %q", got.Layers, first.Layers)
			}
			if got.User != "app" || got.WorkingDir != "/srv/app" || !slices.Equal(got.Command, []string{"/bin/app", "serve", "--port=1"}) || !slices.Equal(got.Env, []string{"MODE"}) {
				t.Errorf("settings: %+v", got)
			}
			if want := digest.String(); got.Digest != want && !strings.HasSuffix(ref, ".tar") {
				t.Errorf("digest %s, want %s", got.Digest, want)
			}
			v := view(t, s, got)
			for name, want := range map[string]string{"/etc/motd": "two", "/etc/motd2": "two", "/gone": "", "/data/old": "", "/data/new": "new", "/bin/app": "program"} {
				if text := read(t, v, name); text != want {
					t.Errorf("%s contains %q, want %q", name, text, want)
				}
			}
			if text := read(t, v, "/etc/passwd"); !strings.Contains(text, "\napp:x:70:71:") || !strings.Contains(text, "\nuser:x:1000:1000:") {
				t.Errorf("passwd: %s", text)
			}
			if mode, _, err := v.lookup("/srv/app"); err != nil || mode&unix.S_IFMT != unix.S_IFDIR {
				t.Errorf("the working directory: mode %o, %v", mode, err)
			}
			set, err := settings.Read(s.cfg.Layers, layer.Digest(got.Layers[len(got.Layers)-1]))
			if err != nil || set == nil || set.User.UID != 70 || set.User.GID != 71 || !slices.Equal(set.User.Groups, []uint32{72}) || set.User.Home != "/var/lib/app" || set.Env["MODE"] != "test" || set.Env["HOME"] != "" {
				t.Errorf("stored settings %+v, %v", set, err)
			}
			tree, err := s.cfg.Layers.Resolve(layer.Digest(got.Layers[len(got.Layers)-1]))
			if err != nil || tree.Path != "/opt/app/bin:/bin" {
				t.Errorf("PATH %q, %v", tree.Path, err)
			}
		})
	}
}

// TestPinned pulls a tag that changes: an image stays what it is until it is refreshed, and is
// then read without its layers, which are there.
func TestPinned(t *testing.T) {
	reg := ocitest.NewRegistry(t)
	one := ocitest.Image(t, config, base(t))
	ref := reg.Push(t, "app:latest", one)
	s := open(t, nil)
	was := pull(t, s, api.PullImage{Reference: ref})
	reg.Push(t, "app:latest", ocitest.Image(t, config, base(t), ocitest.Layer(t, ocitest.File("more", "more"))))
	reg.Requests.Store(0)
	if again := pull(t, s, api.PullImage{Reference: ref}); again.Digest != was.Digest || reg.Requests.Load() != 0 {
		t.Errorf("another pull gave %s after %d requests, before it was %s", again.Digest, reg.Requests.Load(), was.Digest)
	}
	reg.Blobs.Store(0)
	now := pull(t, s, api.PullImage{Reference: ref, Refresh: true})
	if n := reg.Blobs.Load(); now.Digest == was.Digest || n != 2 { // the configuration and one layer
		t.Errorf("after a refresh: digest %s, %d blobs were read, want 2", now.Digest, n)
	}
	// The records are on disk.
	other, err := Open(s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if img, err := other.Find(ref); err != nil || img.Digest != now.Digest {
		t.Errorf("after another open: %+v, %v", img, err)
	}
	pull(t, s, api.PullImage{Reference: ref, Name: "app"})
	if l, err := s.Layers("app"); err != nil || len(l) == 0 {
		t.Errorf("layers of the template: %q, %v", l, err)
	}
	if len(s.List()) != 2 || s.List()[0].Name != "app" {
		t.Errorf("list: %+v", s.List())
	}
	if _, err := s.Remove("app"); err != nil {
		t.Error(err)
	}
	if _, err := s.Layers("app"); api.KindOf(err) != api.KindNotFound {
		t.Errorf("a removed template has layers: %v", err)
	}
}

// TestCredentials pulls from a registry that requires a password, with a Docker configuration.
func TestCredentials(t *testing.T) {
	reg := ocitest.NewRegistry(t)
	ref := reg.Push(t, "private:1", ocitest.Image(t, config, base(t)))
	reg.User, reg.Password = "someone", "swordfish"
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	s := open(t, nil)
	if _, err := s.Pull(t.Context(), api.PullImage{Reference: ref}, nil); api.KindOf(err) != api.KindDenied || !strings.Contains(api.HintOf(err), "docker login") {
		t.Errorf("without a password: %v, hint %q", err, api.HintOf(err))
	}
	text := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, reg.Host, reg.Auth())
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	pull(t, s, api.PullImage{Reference: ref})
}

// TestRefused lists images that are not accepted. Nothing is left of them.
func TestRefused(t *testing.T) {
	reg := ocitest.NewRegistry(t)
	dir := t.TempDir()
	save := func(img v1.Image) string {
		p := filepath.Join(dir, fmt.Sprint(len(must(os.ReadDir(dir)))))
		ocitest.Save(t, p, img)
		return p
	}
	user := func(name string) v1.Image { return ocitest.Image(t, v1.Config{User: name}, base(t)) }
	hostile := func(entries ...ocitest.Entry) v1.Image {
		return ocitest.Image(t, v1.Config{}, base(t), ocitest.Layer(t, entries...))
	}
	reg.Hook = func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.Contains(r.URL.Path, "/silent/"):
			<-r.Context().Done()
		case strings.Contains(r.URL.Path, "/endless/manifests/"):
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			for b := make([]byte, 64<<10); ; {
				if _, err := w.Write(b); err != nil {
					return true
				}
			}
		default:
			return false
		}
		return true
	}
	for name, tc := range map[string]struct {
		ref  string
		want api.Kind
		text string
	}{
		"no image":             {reg.Host + "/none:1", api.KindNotFound, "was not found"},
		"malformed reference":  {"UPPER CASE", api.KindInvalid, "not a valid image reference"},
		"no registry":          {"127.0.0.1:1/x:1", api.KindUnavailable, ""},
		"another architecture": {reg.Push(t, "other:1", ocitest.ImageFor(t, "s390x", config, base(t))), api.KindUnsupported, "s390x"},
		"other architectures":  {reg.Push(t, "others:1", ocitest.Index(t, ocitest.ImageFor(t, "s390x", config, base(t)), ocitest.ImageFor(t, "ppc64le", config, base(t)))), api.KindUnsupported, "linux/s390x, linux/ppc64le"},
		"silent registry":      {reg.Host + "/silent/x:1", api.KindUnavailable, "sent nothing"},
		"endless manifest":     {reg.Host + "/endless:1", api.KindInvalid, "more than"},
		"missing file":         {dir + "/none.tar", api.KindNotFound, ""},
		"not an archive":       {must(os.Executable()), api.KindInvalid, "not a tar archive"},
		"empty directory":      {t.TempDir(), api.KindInvalid, "neither manifest.json"},
		"unknown user":         {save(user("nobody-here")), api.KindInvalid, "not in /etc/passwd"},
		"the guest's ID":       {save(user("65533")), api.KindInvalid, "65533"},
		"path out":             {save(hostile(ocitest.File("../out", "x"))), api.KindInvalid, "leads out"},
		"path through a link":  {save(hostile(ocitest.Link("l", "/etc"), ocitest.File("l/x", "x"))), api.KindInvalid, "through a link"},
		"hard link out":        {save(hostile(ocitest.Hard("h", "../../etc/passwd"))), api.KindInvalid, "leads out"},
		"relative directory":   {save(ocitest.Image(t, v1.Config{WorkingDir: strings.Repeat("/d", 100)}, base(t))), api.KindInvalid, "working directory"},
		"directory is a file":  {save(ocitest.Image(t, v1.Config{WorkingDir: "/etc/motd"}, base(t))), api.KindInvalid, "is a file"},
		"invalid variable":     {save(ocitest.Image(t, v1.Config{Env: []string{"A\x00=1"}}, base(t))), api.KindInvalid, "environment"},
		"endless users":        {save(hostile(ocitest.File("etc/passwd", strings.Repeat("x", maxUserFile+1)))), api.KindInvalid, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, func(c *Config) { c.Source.Stall = 300 * time.Millisecond })
			_, err := s.Pull(t.Context(), api.PullImage{Reference: tc.ref, Name: "t"}, nil)
			if api.KindOf(err) != tc.want || !strings.Contains(fmt.Sprint(err), tc.text) {
				t.Errorf("%v (%s), want %s and %q", err, api.KindOf(err), tc.want, tc.text)
			}
			if n := s.List(); len(n) != 0 {
				t.Errorf("records: %v", n)
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestCorruptBlob changes a layer after its digest was computed, in each kind of source.
func TestCorruptBlob(t *testing.T) {
	img := ocitest.Image(t, config, base(t))
	l := must(img.Layers())[0]
	blob := must(l.Digest())
	reg := ocitest.NewRegistry(t)
	ref := reg.Push(t, "app:1", img)
	dir := t.TempDir()
	ocitest.Layout(t, dir, ocitest.Index(t, img))
	other := ocitest.Layer(t, ocitest.File("other", "other"))
	content := make([]byte, must(other.Size()))
	r := must(other.Compressed())
	if _, err := r.Read(content); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "blobs/sha256", blob.Hex), content, 0o600); err != nil {
		t.Fatal(err)
	}
	reg.Hook = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, blob.String()) {
			return false
		}
		w.Write(content)
		return true
	}
	for _, ref := range []string{ref, dir} {
		s := open(t, nil)
		_, err := s.Pull(t.Context(), api.PullImage{Reference: ref}, nil)
		if err == nil || !strings.Contains(err.Error(), "digest") && !strings.Contains(err.Error(), "verif") {
			t.Errorf("%s: %v", ref, err)
		}
		if all := must(s.cfg.Layers.List()); len(all) != 0 {
			t.Errorf("%s: layers %q are left", ref, all)
		}
	}
}

// TestAttributes unpacks attributes that are kept, and such that are not.
func TestAttributes(t *testing.T) {
	long := strings.Repeat("long-name/", 30) + strings.Repeat("n", 255)
	img := ocitest.Image(t, v1.Config{}, base(t), ocitest.Layer(t,
		ocitest.File(long, "long"),
		ocitest.Program("bin/su", "su").With(func(h *tar.Header) { h.Mode = 0o4755; h.Uid = 0 }),
		ocitest.File("x", "x").With(func(h *tar.Header) {
			h.PAXRecords = map[string]string{"SCHILY.xattr.user.kept": "yes", "SCHILY.xattr.security.capability": "no"}
		}),
		ocitest.Entry{Header: tar.Header{Typeflag: tar.TypeChar, Name: "dev/kmsg", Devmajor: 1, Devminor: 11}},
	))
	p := filepath.Join(t.TempDir(), "saved")
	ocitest.Save(t, p, img)
	s := open(t, nil)
	got := pull(t, s, api.PullImage{Reference: p})
	if got.Skipped != 1 || got.Dropped != 2 {
		t.Errorf("%d skipped, %d dropped; want 1 and 2", got.Skipped, got.Dropped)
	}
	v := view(t, s, got)
	if read(t, v, long) != "long" {
		t.Error("the file with the long name is missing")
	}
	if mode, f, err := v.lookup("/bin/su"); err != nil || mode&0o7777 != 0o755 {
		t.Errorf("setuid file: mode %o, %v", mode, err)
	} else {
		f.Close()
	}
	_, f, err := v.lookup("/x")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var buf [16]byte
	if n, err := unix.Fgetxattr(int(f.Fd()), "user.kept", buf[:]); err != nil || string(buf[:n]) != "yes" {
		t.Errorf("attribute %q, %v", buf[:max(n, 0)], err)
	}
}

// TestCancel ends a pull while a layer is read. No layer and no record is left.
func TestCancel(t *testing.T) {
	reg := ocitest.NewRegistry(t)
	img := ocitest.Image(t, config, base(t))
	ref := reg.Push(t, "app:1", img)
	blob := must(must(img.Layers())[0].Digest())
	ctx, cancel := context.WithCancel(t.Context())
	reg.Hook = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, blob.String()) {
			cancel()
			<-r.Context().Done()
			return true
		}
		return false
	}
	s := open(t, nil)
	if _, err := s.Pull(ctx, api.PullImage{Reference: ref}, nil); api.KindOf(err) != api.KindCanceled {
		t.Errorf("a canceled pull: %v", err)
	}
	reg.Hook = nil
	if all := must(s.cfg.Layers.List()); len(all)+len(s.List()) != 0 {
		t.Errorf("layers %q and records %v are left", all, s.List())
	}
	pull(t, s, api.PullImage{Reference: ref})
}

// TestTogether pulls images with a common layer at the same time: it is read once at least and
// stored once.
func TestTogether(t *testing.T) {
	reg := ocitest.NewRegistry(t)
	one := reg.Push(t, "one:1", ocitest.Image(t, config, base(t)))
	two := reg.Push(t, "two:1", ocitest.Image(t, config, base(t), ocitest.Layer(t, ocitest.File("two", "two"))))
	s := open(t, nil)
	done := make(chan error)
	for _, ref := range []string{one, two, one, two} {
		go func() {
			_, err := s.Pull(t.Context(), api.PullImage{Reference: ref}, nil)
			done <- err
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := len(s.Named()); got != 3+4 {
		t.Errorf("%d layers are named, want 7", got)
	}
	if all := must(s.cfg.Layers.List()); len(all) != 4 { // base, two's, and the two that complete an image
		t.Errorf("%d layers are stored, want 4", len(all))
	}
}

// TestCanonical completes references.
func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		"python:3.12": "index.docker.io/library/python:3.12", "example.org/a/b": "example.org/a/b:latest", "/tmp/x.tar": "/tmp/x.tar",
	} {
		if got, err := source.Canonical(in); err != nil || got != want {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
}

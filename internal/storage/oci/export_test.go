package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/oci/users"
	"hortus.dev/test/ocitest"
)

// exported exports an image into a file.
func exported(t *testing.T, s *Images, name string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "exported.tar")
	f, err := os.Create(p)
	if err == nil {
		err = errors.Join(s.Export(t.Context(), name, f), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// withSudo opens images to whose sandboxes Hortus adds a sudo. Its clock stands still.
func withSudo(t *testing.T) *Images {
	t.Helper()
	return open(t, func(c *Config) {
		sudo, err := os.Open("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sudo.Close() })
		c.Sudo, c.SudoKey = sudo, "1"
		c.Now = func() time.Time { return time.Unix(1_700_000_000, 0) }
	})
}

// everything is an image with all that a layer can have.
func everything(t *testing.T) v1.Image {
	long := strings.Repeat("long-name/", 30) + strings.Repeat("n", 255)
	return ocitest.Image(t, config, base(t), ocitest.Layer(t,
		ocitest.File(".wh.gone", ""), ocitest.Dir("data/"), ocitest.File("data/.wh..wh..opq", ""), ocitest.File("data/new", "new"),
		ocitest.File("etc/motd", "two"), ocitest.Hard("etc/motd2", "etc/motd"), ocitest.Link("etc/to", "motd"), ocitest.File(long, "long"),
		ocitest.File("owned", "x").With(func(h *tar.Header) {
			h.Uid, h.Gid, h.Mode = 70, 71, 0o640
			h.ModTime = time.Unix(1_600_000_000, 0)
			h.PAXRecords = map[string]string{"SCHILY.xattr.user.kept": "yes"}
		})))
}

// TestExport exports an image and pulls what was exported: its files, owners, whiteouts and
// settings are the same, and so is what is exported of it.
func TestExport(t *testing.T) {
	first := withSudo(t)
	saved := filepath.Join(t.TempDir(), "saved.tar")
	ocitest.Save(t, saved, everything(t))
	was := pull(t, first, api.PullImage{Reference: saved, Name: "app"})
	one := exported(t, first, "app")
	second := withSudo(t)
	got := pull(t, second, api.PullImage{Reference: one, Name: "app"})
	if got.User != was.User || got.WorkingDir != was.WorkingDir || !slices.Equal(got.Command, was.Command) || !slices.Equal(got.Env, was.Env) || got.Bytes != was.Bytes || got.Skipped+got.Dropped != 0 {
		t.Errorf("pulled again: %+v\nbefore: %+v", got, was)
	}
	tree := must(second.cfg.Layers.Resolve(layer.Digest(got.Layers[len(got.Layers)-1])))
	if tree.Path != ownBin+":/opt/app/bin:/bin" {
		t.Errorf("PATH %s", tree.Path)
	}
	v := view(t, second, got)
	for name, want := range map[string]string{"/etc/motd": "two", "/etc/motd2": "two", "/etc/to": "two", "/gone": "", "/data/old": "", "/data/new": "new", "/bin/app": "program"} {
		if text := read(t, v, name); text != want {
			t.Errorf("%s contains %q, want %q", name, text, want)
		}
	}
	_, f, err := v.lookup("/owned")
	if err != nil || f == nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	if st.Mode&0o7777 != 0o640 || st.Mtim.Sec != 1_600_000_000 || os.Geteuid() == 0 && (st.Uid != 70 || st.Gid != 71) {
		t.Errorf("mode %o, owner %d:%d, time %d", st.Mode, st.Uid, st.Gid, st.Mtim.Sec)
	}
	var attr [8]byte
	if n, err := unix.Fgetxattr(int(f.Fd()), "user.kept", attr[:]); err != nil || string(attr[:n]) != "yes" {
		t.Errorf("attribute: %q, %v", attr[:max(n, 0)], err)
	}
	two := exported(t, second, "app")
	if !bytes.Equal(must(os.ReadFile(one)), must(os.ReadFile(two))) {
		t.Error("what was exported and pulled is exported differently")
	}

	// What Hortus adds is left out.
	img, err := tarball.ImageFromPath(one, nil)
	if err != nil {
		t.Fatal(err)
	}
	layers := must(img.Layers())
	if len(layers) != 3 { // two of the image, and its working directory
		t.Errorf("%d layers", len(layers))
	}
	for _, l := range layers {
		r := must(l.Uncompressed())
		for tr := tar.NewReader(r); ; {
			h, err := tr.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(tr)
			if strings.Contains(h.Name, "hortus") || bytes.Contains(text, []byte("hortus")) || err != nil {
				t.Errorf("%s, %v", h.Name, err)
			}
		}
		r.Close()
	}
	c := must(img.ConfigFile()).Config
	if !reflect.DeepEqual(c, config) {
		t.Errorf("settings: %+v", c)
	}
	checkLayout(t, one)
}

// checkLayout reads an archive as an OCI layout, verifying all digests.
func checkLayout(t *testing.T, archive string) {
	t.Helper()
	dir := t.TempDir()
	tr := tar.NewReader(bytes.NewReader(must(os.ReadFile(archive))))
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		p := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, must(io.ReadAll(tr)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	index := must(must(path.ImageIndex()).IndexManifest())
	if len(index.Manifests) != 1 {
		t.Fatalf("%d manifests", len(index.Manifests))
	}
	img := must(path.Image(index.Manifests[0].Digest))
	for _, l := range must(img.Layers()) {
		r := must(l.Compressed())
		if _, err := io.Copy(io.Discard, r); err != nil { // it verifies
			t.Error(err)
		}
		r.Close()
	}
	if err := os.Remove(filepath.Join(dir, "manifest.json")); err != nil {
		t.Fatal(err)
	}
	s := open(t, nil)
	pull(t, s, api.PullImage{Reference: dir})
}

// TestExportRefused lists what cannot be exported. Nothing is written of it.
func TestExportRefused(t *testing.T) {
	s := open(t, nil)
	saved := filepath.Join(t.TempDir(), "saved.tar")
	ocitest.Save(t, saved, ocitest.Image(t, v1.Config{}, base(t), ocitest.Layer(t, ocitest.File("more", "more"))))
	pull(t, s, api.PullImage{Reference: saved, Name: "whole"})
	lost := pull(t, s, api.PullImage{Reference: saved, Name: "lost"})
	host := []layer.Digest{layer.Digest("host-" + strings.Repeat("a", 64))}
	plain := made("plain")
	if _, err := s.cfg.Layers.Put(t.Context(), plain, func(_ context.Context, dir string) (layer.Tree, error) {
		return layer.Tree{Root: filepath.Join(dir, "root")}, os.Mkdir(filepath.Join(dir, "root"), 0o755)
	}); err != nil {
		t.Fatal(err)
	}
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	above := func(context.Context, io.Writer) error { return api.Errorf(api.KindInvalid, "hostile") }
	for name, tc := range map[string]struct {
		call func(w io.Writer) error
		want api.Kind
	}{
		"no image":      {func(w io.Writer) error { return s.Export(t.Context(), "none", w) }, api.KindNotFound},
		"canceled":      {func(w io.Writer) error { return s.Export(cut, "whole", w) }, api.KindCanceled},
		"host template": {func(w io.Writer) error { return s.ExportSaved(t.Context(), Saved{Layers: host}, w) }, api.KindUnsupported},
		"no image below": {func(w io.Writer) error {
			return s.ExportSaved(t.Context(), Saved{Layers: []layer.Digest{plain, plain}}, w)
		}, api.KindUnsupported},
		"hostile upper": {func(w io.Writer) error {
			return s.ExportSaved(t.Context(), Saved{Name: "x", Layers: digests(lost), Above: above}, w)
		}, api.KindInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := tc.call(&out); api.KindOf(err) != tc.want || out.Len() > 0 {
				t.Errorf("%v (%s), want %s; %d bytes were written", err, api.KindOf(err), tc.want, out.Len())
			}
		})
	}
	if err := s.cfg.Layers.Remove(layer.Digest(lost.Layers[1])); err != nil {
		t.Fatal(err)
	}
	if err := s.Export(t.Context(), "lost", io.Discard); api.KindOf(err) != api.KindNotFound {
		t.Errorf("an image without a layer: %v", err)
	}
}

// TestExportedUser resolves users that the files of an image have, and those that they do not.
func TestExportedUser(t *testing.T) {
	const passwd, group = "root:x:0:0:root:/root:/bin/sh\napp:x:70:71::/:/bin/sh\n", "root:x:0:\nextra:x:72:app\n"
	for user, want := range map[string]string{"": "root", "app": "app", "70": "app", "app:extra": "app:72", "1234": "1234", "1234:5": "1234:5", "user": "1000:1000", "nobody": "65534:65534"} {
		u, err := users.Find(user, complete(passwd, ownUsers), complete(group, ownGroups))
		if err != nil {
			t.Fatal(err)
		}
		if got := exportedUser(u, passwd, group); got != want {
			t.Errorf("user %q is exported as %q, want %q", user, got, want)
		}
	}
	u, err := users.Find("", complete("", ownUsers), complete("", ownGroups))
	if got := exportedUser(u, "", ""); got != "0" || err != nil {
		t.Errorf("root without files is exported as %q, %v", got, err)
	}
}

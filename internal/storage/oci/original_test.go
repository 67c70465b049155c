package oci

import (
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
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/oci/settings"
	"hortus.dev/test/ocitest"
)

// configOf reads the configuration of an archive.
func configOf(t *testing.T, archive string) v1.Config {
	t.Helper()
	return must(must(tarball.ImageFromPath(archive, nil)).ConfigFile()).Config
}

// TestOriginal: what an image says about its containers is the same after import, export, import
// and export, as an image and as a sandbox that was saved.
func TestOriginal(t *testing.T) {
	ports := map[string]struct{}{"80/tcp": {}, "53/udp": {}}
	for name, c := range map[string]v1.Config{
		"nothing":                        {},
		"no entrypoint":                  {Cmd: []string{"sh"}},
		"no command":                     {Entrypoint: []string{"/bin/app", "--flag"}},
		"labels alone":                   {Labels: map[string]string{"a": "<&>\u2028\n\"", "org.example.empty": ""}},
		"a user of Hortus's and no PATH": {User: "user", Env: []string{"B=2", "A=1", "USER=x", "EMPTY=", "from-the-host"}},
		"everything": {
			Env: []string{"PATH=/opt/app/bin:/bin", "Z=1", "A=a=b", "HOME=/wrong"}, Entrypoint: []string{"/bin/app", ""}, Cmd: []string{"serve", "--port=1"},
			User: "70:71", WorkingDir: "srv//app/", Labels: map[string]string{"org.opencontainers.image.title": "app"},
			ExposedPorts: ports, Volumes: map[string]struct{}{"/data": {}}, StopSignal: "SIGINT",
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "saved.tar")
			ocitest.Save(t, at, ocitest.Image(t, c, base(t)))
			for round := range 2 {
				s := withSudo(t)
				img := pull(t, s, api.PullImage{Reference: at, Name: "app"})
				if want := slices.Concat(c.Entrypoint, c.Cmd); !slices.Equal(img.Command, want) || !slices.Equal(img.Entrypoint, c.Entrypoint) {
					t.Errorf("round %d: command %q, entrypoint %q", round, img.Command, img.Entrypoint)
				}
				at = exported(t, s, "app")
				if got := configOf(t, at); !reflect.DeepEqual(got, c) {
					t.Errorf("round %d: %+v, want %+v", round, got, c)
				}
				sandbox := filepath.Join(t.TempDir(), "box.tar")
				f := must(os.Create(sandbox))
				if err := errors.Join(s.ExportSaved(t.Context(), Saved{Name: "box", Layers: digests(img), CreatedAt: time.Unix(0, 0)}, f), f.Close()); err != nil {
					t.Fatal(err)
				}
				if got := configOf(t, sandbox); !reflect.DeepEqual(got, c) {
					t.Errorf("round %d, a saved sandbox: %+v, want %+v", round, got, c)
				}
			}
		})
	}
}

// TestOriginalOfEarlierVersions: an image that an earlier version pulled has one command, and is
// exported with what its sandboxes have.
func TestOriginalOfEarlierVersions(t *testing.T) {
	s := withSudo(t)
	at := filepath.Join(t.TempDir(), "saved.tar")
	ocitest.Save(t, at, ocitest.Image(t, config, base(t)))
	img := pull(t, s, api.PullImage{Reference: at, Name: "app"})
	top := layer.Digest(img.Layers[len(img.Layers)-1])
	dir := filepath.Join(s.cfg.Layers.Dir(), string(top))
	if err := os.Remove(filepath.Join(dir, "config.json")); err != nil {
		t.Fatal(err)
	}
	if o, err := settings.ReadOriginal(s.cfg.Layers, top); o != nil || err != nil {
		t.Errorf("%+v, %v", o, err)
	}
	text := `{"env":{"MODE":"test"},"user":{"name":"app","uid":70,"gid":71,"groups":[72],"home":"/var/lib/app"},"dir":"/srv/app","command":["/bin/app","serve"]}`
	if err := os.WriteFile(filepath.Join(dir, "image.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := settings.Read(s.cfg.Layers, top)
	if err != nil || !slices.Equal(set.Command(), []string{"/bin/app", "serve"}) {
		t.Errorf("%+v, %v", set, err)
	}
	c := configOf(t, exported(t, s, "app"))
	if !slices.Equal(c.Cmd, []string{"/bin/app", "serve"}) || c.Entrypoint != nil || c.User != "app" || c.WorkingDir != "/srv/app" || !slices.Equal(c.Env, []string{"PATH=/opt/app/bin:/bin", "MODE=test"}) {
		t.Errorf("%+v", c)
	}
	// What is damaged is an error, not another image.
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Export(t.Context(), "app", io.Discard); api.KindOf(err) != api.KindInternal || !strings.Contains(err.Error(), "settings of layer") {
		t.Errorf("%v", err)
	}
}

// TestOriginalIsBounded: labels without end are refused.
func TestOriginalIsBounded(t *testing.T) {
	for size, want := range map[int]api.Kind{3 << 20: "", 5 << 20: api.KindInvalid} {
		s := open(t, nil)
		at := filepath.Join(t.TempDir(), "saved.tar")
		ocitest.Save(t, at, ocitest.Image(t, v1.Config{Labels: map[string]string{"a": strings.Repeat("x", size)}}, base(t)))
		if _, err := s.Pull(t.Context(), api.PullImage{Reference: at}, nil); api.KindOf(err) != want {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

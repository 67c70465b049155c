package attack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/image"
	"hortus.dev/test/tier"
)

// TestCredentialsBesideToolchains plants credentials in a home directory, beside a toolchain that sandboxes are shown and in it.
// The control is a file of the toolchain, which they read.
func TestCredentialsBesideToolchains(t *testing.T) {
	for _, isolation := range isolations {
		t.Run(isolation, func(t *testing.T) {
			needsPrograms(t, isolation)
			if isolation == "docker" || isolation == "microvm" || atService(isolation) {
				tier.Soak(t) // the template is the same as of containers
			}
			home, err := filepath.EvalSymlinks(t.TempDir())
			check(t, "the home directory", err)
			rust := filepath.Join(home, ".rustup/toolchains/stable")
			put := func(p, text string, mode uint32) {
				t.Helper()
				check(t, "make a directory", os.MkdirAll(filepath.Dir(p), 0o755))
				check(t, "write", os.WriteFile(p, []byte(text), 0o600))
				check(t, "chmod", unix.Chmod(p, mode))
			}
			for _, program := range []string{"rustc", "cargo"} {
				put(filepath.Join(rust, "bin", program), "#!/bin/sh\necho here\n", 0o755)
			}
			control := newMarker("control")
			put(filepath.Join(rust, "lib/control"), control, 0o644)
			var markers []string
			for _, p := range []string{".cargo/credentials.toml", ".cargo/registry/index/token", ".m2/settings.xml", ".npmrc", ".rustup/token",
				".rustup/toolchains/other/bin/token", ".rustup/toolchains/stable/lib/credentials.toml", ".rustup/toolchains/stable/etc/npmrc"} {
				m := newMarker("credentials")
				at := filepath.Join(home, p)
				check(t, "make a directory", os.MkdirAll(filepath.Dir(at), 0o755))
				plant(t, at, m, 0o644)
				markers = append(markers, m)
			}
			check(t, "link", os.Symlink(filepath.Join(home, ".cargo"), filepath.Join(rust, "lib/cargo")))
			check(t, "link", os.Symlink("../../../../.cargo/credentials.toml", filepath.Join(rust, "lib/token")))
			w := newWorldFrom(t, isolation, "", filepath.Join(t.TempDir(), "layers"), image.Config{Home: home, Toolchains: []string{"rust"}})
			w.needs(t, api.CapPrivateFiles)
			sandbox := w.create(t, nil)
			prog := w.program(t, sandbox.ID)
			for _, user := range sandbox.Identities {
				if r := w.exec(t, sandbox.ID, user, "cat", "/opt/rust/lib/control"); r.stdout != control {
					t.Fatalf("control: %s does not read the toolchain: %+v", user, r)
				}
				if r := w.exec(t, sandbox.ID, user, "cargo"); strings.TrimSpace(r.stdout) != "here" {
					t.Errorf("control: cargo as %s: %+v", user, r)
				}
				for _, p := range []string{"lib/cargo/credentials.toml", "lib/token", "lib/credentials.toml", "etc/npmrc", "../../.cargo/credentials.toml"} {
					if r := w.exec(t, sandbox.ID, user, "cat", "/opt/rust/"+p); r.exec.Exit.Code == 0 {
						t.Errorf("%s reads %s: %q", user, p, r.stdout)
					}
				}
				// On gvisor root has a writable copy of its own, as of all of the template.
				w.exec(t, sandbox.ID, user, "sh", "-c", "echo x >/opt/rust/bin/new; echo x >>/opt/rust/lib/control")
				if b, err := os.ReadFile(filepath.Join(rust, "lib/control")); err != nil || string(b) != control {
					t.Errorf("%s changes the toolchain of the host: %q, %v", user, b, err)
				}
				if _, err := os.Lstat(filepath.Join(rust, "bin/new")); err == nil {
					t.Errorf("%s makes a file in the toolchain of the host", user)
				}
				found, n := w.walk(t, sandbox.ID, user, prog, deep(t), markers...)
				t.Logf("%s sees %d files", user, n)
				for _, f := range found {
					if isolation == "gvisor" && (f.Path == "/dev/fuse" || f.Path == "/dev/net/tun") {
						continue // of its own kernel's
					}
					t.Errorf("%s finds %s: %s", user, f.What, f.Path)
				}
			}
		})
	}
}

package jail_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/upper"
	"hortus.dev/internal/sandbox"
)

// forgedImage is an image of a tree that no sandbox could have made: with links
// where the stage makes directories, mounts and files.
func forgedImage(t *testing.T, build func(root string)) string {
	t.Helper()
	root, dir := t.TempDir(), t.TempDir()
	build(root)
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	f, err := os.Create(filepath.Join(dir, "files"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	inside := func(uint32) (uint32, bool) { return 1000, true }
	if err := upper.Write(t.Context(), f, []upper.Tree{{Name: upper.Root, Dir: fd}}, upper.Options{ID: inside, Entries: 1000, Bytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The stage builds a root over an image while the host's files are still in sight,
// with the rights of the daemon's user where that is no root. No link of the image
// may lead it there.
func TestImageLeadsToNoHostFile(t *testing.T) {
	e := newEnv(t)
	for _, name := range []string{"dev", "proc", "usr", "etc", "workspace", "tmp", "home", "run"} {
		for _, how := range []string{"absolute", "upwards"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				// Not below /tmp, which the stage covers first.
				host, err := os.MkdirTemp("/var/tmp", "hortus-host")
				if err != nil {
					t.Fatal(err)
				}
				defer os.RemoveAll(host)
				if err := os.Chmod(host, 0o777); err != nil {
					t.Fatal(err)
				}
				target := host
				if how == "upwards" {
					target = "../../../../../../../.." + host
				}
				dir := forgedImage(t, func(root string) {
					if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
						t.Fatal(err)
					}
				})
				spec := sandbox.Spec{ID: api.NewSandboxID(), Layers: specLayers(), Limits: limits(), Hostname: "garden"}
				m, err := e.Restore(t.Context(), spec, dir)
				if err == nil { // it may start: the link leads nowhere inside
					if err := m.Claim(t.Context(), nil); err == nil {
						_, _ = try(m, request{User: "user", Args: []string{"/bin/sh", "-c", "echo x >/" + name + "/x"}})
					}
					kill(t, m)
				}
				if entries, err := os.ReadDir(host); err != nil || len(entries) > 0 {
					t.Errorf("the host's directory has %v, %v", entries, err)
				}
				if _, err := os.Stat(filepath.Join(e.dir, string(spec.ID))); !os.IsNotExist(err) {
					t.Errorf("left over: %v", err)
				}
			})
		}
	}
	// The control: what makes its files by their paths makes them on the host.
	host, root := t.TempDir(), t.TempDir()
	if err := os.Symlink(host, filepath.Join(root, "dev")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "dev/null"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(host, "null")); err != nil {
		t.Error("a link led nowhere without the guard")
	}
}

// A saved sandbox has no way to what is not its own, however it names it, and what
// it marks for the overlay steers no child.
func TestMarksSteerNoChild(t *testing.T) {
	e := newEnv(t)
	saves(t, e)
	m, _ := e.start(t)
	user := "user"
	if isRoot() {
		user = "root"
	}
	script := `import os
os.makedirs("/tmp/m/d"); open("/tmp/m/f", "w").write("mine")
for p in ("/tmp/m", "/tmp/m/d", "/tmp/m/f", "/srv/tree" if os.access("/srv/tree", os.W_OK) else "/tmp/m"):
    for name, value in (("opaque", b"y"), ("redirect", b"/etc"), ("metacopy", b""), ("whiteout", b""), ("overlay.opaque", b"y"), ("overlay.redirect", b"/etc")):
        try: os.setxattr(p, "user.overlay." + name, value)
        except OSError as e: pass
`
	rep := ask(t, m, request{User: user, Args: []string{"/bin/sh", "-c", "command -v python3 >/dev/null || exit 9; python3 -c '" + script + "'"}})
	if rep.Code == 9 {
		t.Skip("no python3 here")
	}
	if rep.Code != 0 {
		t.Fatalf("%+v", rep)
	}
	const look = "cat /srv/tree/deep/file /tmp/m/f; ls -A /tmp/m /tmp/m/d"
	before := sh(t, m, user, look)
	c := e.restored(t, save(t, m, sandbox.SaveOptions{}))
	if after := sh(t, c, user, look); after != before {
		t.Errorf("%s", fmt.Sprintf("a child sees\n%s\nand its parent saw\n%s", after, before))
	}
}

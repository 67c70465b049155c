package jail_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
)

// TestHostTreesAreNotMapped holds what doc.go promises: ids of the host's mean nothing
// in its trees, so that a file which is closed after the mask was made stays
// closed, also to root inside. The control is the skeleton, which is id mapped:
// there the same mode is no bar to root inside, and no other sandbox's root is
// meant by it.
func TestHostTreesAreNotMapped(t *testing.T) {
	if !isRoot() {
		t.Skip("an ordinary user's sandbox has one id, the same on both sides")
	}
	e := newEnv(t)
	shown := t.TempDir()
	if err := os.Chmod(shown, 0o755); err != nil {
		t.Fatal(err)
	}
	mask, secret := t.TempDir(), filepath.Join(shown, "secret")
	if err := os.WriteFile(secret, []byte("of the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	const digest = layer.Digest("host-1111111111111111111111111111111111111111111111111111111111111111")
	if _, err := e.layers.Put(context.Background(), digest, func(ctx context.Context, dir string) (layer.Tree, error) {
		tree, err := buildTree(ctx, dir)
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Join(tree.Root, "opt/shown"), 0o755), os.Mkdir(filepath.Join(tree.Root, "opt/masked"), 0o755))
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(tree.Root, "etc/private"), []byte("of the skeleton"), 0o600)
		}
		tree.Mounts = append(tree.Mounts, layer.Mount{Target: "/opt/shown", Lowers: []string{shown}},
			layer.Mount{Target: "/opt/masked", Lowers: []string{mask, shown}})
		return tree, err
	}); err != nil {
		t.Fatal(err)
	}
	m, _ := e.start(t, func(s *sandbox.Spec) { s.Layers = []layer.Digest{digest} })
	if got := sh(t, m, "user", "cat /opt/shown/secret; cat /opt/masked/secret >/dev/null; stat -c %u /opt/shown/secret; stat -c %u /etc/passwd"); got != "of the host65534\n0" {
		t.Errorf("while it is open: %q", got)
	}
	// A single directory is an overlay of the sandbox's own too, not the host's file
	// system, whose inodes the host uses (decision 0047).
	var st unix.Stat_t
	if err := unix.Stat(shown, &st); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, m, "user", "stat -c %d /opt/shown"); got == fmt.Sprint(st.Dev) {
		t.Errorf("inside is the host's own file system, device %s", got)
	}
	if err := os.Chmod(secret, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"user", "root"} {
		for _, path := range []string{"/opt/shown/secret", "/opt/masked/secret"} {
			if rep := ask(t, m, request{User: user, Args: []string{"/bin/cat", path}}); rep.Code == 0 {
				t.Errorf("%s reads %q from %s though the host closed it", user, rep.Out, path)
			}
			if rep := ask(t, m, request{User: user, Args: []string{"/bin/chmod", "644", path}}); rep.Code == 0 {
				t.Errorf("%s opened %s again", user, path)
			}
		}
	}
	if got := sh(t, m, "root", "cat /etc/private"); got != "of the skeleton" {
		t.Errorf("control: root inside reads %q in the skeleton", got)
	}
	if rep := ask(t, m, request{User: "user", Args: []string{"/bin/cat", "/etc/private"}}); rep.Code == 0 {
		t.Errorf("user reads what is root's inside: %q", rep.Out)
	}
}

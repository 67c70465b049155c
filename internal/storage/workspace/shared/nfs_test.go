package shared

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer/archive"
)

// nfs is an NFS server of the kernel, which exports one directory to this machine.
type nfs struct{ dir string }

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func newNFS(t *testing.T) *nfs {
	t.Helper()
	n := &nfs{t.TempDir()}
	for _, dir := range []string{"/var/lib/nfs/v4recovery", "/var/lib/nfs/sm", "/run/rpc_pipefs", "/proc/fs/nfsd"} {
		if !strings.HasPrefix(dir, "/proc/") {
			must(t, os.MkdirAll(dir, 0o755))
		}
	}
	for _, m := range [][2]string{{"nfsd", "/proc/fs/nfsd"}, {"rpc_pipefs", "/run/rpc_pipefs"}} {
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil && err != unix.EBUSY {
			t.Fatal(m, err)
		}
	}
	for _, file := range []string{"/etc/exports", "/var/lib/nfs/etab", "/var/lib/nfs/rmtab"} {
		must(t, os.WriteFile(file, nil, 0o644))
	}
	run(t, "exportfs", "-o", "rw,sync,no_root_squash,insecure,no_subtree_check,fsid=0", "127.0.0.1:"+n.dir)
	run(t, "rpc.mountd", "--no-nfs-version", "3")
	n.start(t)
	t.Cleanup(func() {
		_ = exec.Command("rpc.nfsd", "0").Run()
		_ = exec.Command("exportfs", "-ua").Run()
	})
	return n
}

func (n *nfs) start(t *testing.T) {
	t.Helper()
	run(t, "rpc.nfsd", "--no-nfs-version", "3", "--grace-time", "10", "--lease-time", "10", "4")
}

func (n *nfs) stop(t *testing.T) {
	t.Helper()
	run(t, "rpc.nfsd", "0")
}

// mount mounts the export as another host would: hard, and with caches of its own.
func (n *nfs) mount(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	options := "addr=127.0.0.1,clientaddr=127.0.0.1,vers=4.2,hard,nosharecache"
	for {
		err := unix.Mount("127.0.0.1:/", dir, "nfs4", 0, options)
		if err == nil {
			break
		}
		if t.Context().Err() != nil || !errors.Is(err, unix.ECONNREFUSED) {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestNFS: hosts with an NFS mount hand a workspace over. While the server is stopped, calls end and say why, and what one host wrote waits;
// when the server is back it is stored and the other host has it.
func TestNFS(t *testing.T) {
	if os.Getenv("HORTUS_TEST_MACHINE") != "own" {
		t.Skip("it needs a machine of its own, whose kernel has an NFS server and client: make test-vm VM=nfs")
	}
	n := newNFS(t)
	const wait = 10 * time.Second
	blobs := func() archive.Blobs { return archive.NewBounded(archive.Dir{Path: n.mount(t)}, wait) }
	one, other := newHost(t, "one", blobs(), 4*wait), newHost(t, "other", blobs(), time.Hour)
	a, z := one.share(t, "shop"), other.share(t, "shop")
	for round := range 3 { // each sees at once what the other one wrote
		must(t, one.use(t, a, map[string]string{"dir/a": strings.Repeat("1", round+1), ".git/config": "x"}))
		must(t, one.storeNow(t, a))
		must(t, other.use(t, z, map[string]string{"b": strings.Repeat("2", round+1)}))
		must(t, other.storeNow(t, z))
		must(t, one.read(t, a))
		one.want(t, a, map[string]string{"dir/a": strings.Repeat("1", round+1), ".git/config": "x", "b": strings.Repeat("2", round+1)})
	}
	done, err := one.Open(t.Context(), a)
	must(t, err)
	_, err = other.Open(t.Context(), z)
	wantKind(t, err, api.KindConflict, "host one")

	n.stop(t)
	one.write(t, a, map[string]string{"late": "1"})
	done() // the sandbox ends
	until(t, "it does not wait", func() bool { return strings.Contains(one.Waiting(a), "does not answer") })
	t.Log(one.Waiting(a))
	if text := one.log.String(); !strings.Contains(text, "waiting to store") || !strings.Contains(text, "since=") || !strings.Contains(text, "check that its server runs") {
		t.Error(text)
	}
	must(t, one.use(t, a, map[string]string{"later": "2"})) // this host continues
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	_, err = other.Open(ctx, z)
	cancel()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that nobody waits for: %v", err)
	}
	_, err = other.Open(t.Context(), z)
	wantKind(t, err, api.KindUnavailable, "does not answer")
	t.Log(err)
	other.want(t, z, map[string]string{"dir/a": "111", ".git/config": "x", "b": "222"}) // what is here can be read

	n.start(t)
	one.free(t, a)
	until(t, "it does not say so", func() bool {
		return strings.Contains(one.log.String(), "what waited for the archive of layers is stored")
	})
	must(t, other.use(t, z, nil))
	other.free(t, z)
	other.want(t, z, map[string]string{"dir/a": "111", ".git/config": "x", "b": "222", "late": "1", "later": "2"})
	if v := other.version(t, z); v.Number != 7 || v.Conflict != "" {
		t.Errorf("%+v", v)
	}
	left, err := filepath.Glob(filepath.Join(n.dir, ".new-*"))
	if must(t, err); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

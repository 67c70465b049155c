package conformance

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/docker"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/test/dockertest"
	"hortus.dev/test/sandboxtest"
	"hortus.dev/test/tier"
	"hortus.dev/test/tools"
)

// TestDockerFar runs the contract on an engine that has no file of this machine: by TCP with TLS, from a template of files.
func TestDockerFar(t *testing.T) {
	tier.Soak(t) // each run has TestFar of the backend
	tier.AnyUser(t)
	far := dockertest.StartFar(t)
	bench := newBench(t)
	bench.tree = "sha256-" + layer.Digest(strings.Repeat("f", 64))
	_, err := bench.layers.Put(t.Context(), bench.tree, func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		return layer.Tree{Root: root, Path: "/usr/bin:/bin"}, copyMachine(root)
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := docker.New(docker.Config{Dir: bench.run, Layers: bench.layers, Workspaces: bench.workspaces, Guest: tools.Program(t, "./cmd/hortus-guest"), Host: far.Address, Certificates: far.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	closed(t, b)
	if a, ok := b.Probe(t.Context()).Has(api.CapStart); !ok {
		t.Fatalf("the engine runs no sandbox: %s; %s", a.Reason, a.Fix)
	}
	suite := &sandboxtest.Suite{Fixture: bench.fixture(b, sandboxtest.Fixture{GuestListed: "root"}), Report: b.Probe(t.Context())}
	for _, c := range sandboxtest.Cases() {
		if slices.Contains(notFar, c.Name) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			if !c.Alone {
				t.Parallel()
			}
			if a, lacks := c.Lacks(suite.Report); lacks {
				t.Skipf("%s lacks %s on this host: %s", b.Name(), a.Capability, a.Reason)
			}
			c.Check(t, suite)
		})
	}
}

// notFar are cases that are not for such an engine. Limits are not shown, because the files that show them are mounts of this machine. A layer
// of roots is one with directories of this machine, which no template is there. The case of trust wants the toolchains of this machine, which
// are not copied.
var notFar = []string{"limit/programs-see-them", "workspace/wrong-layers", "trust/stores-of-the-system"}

// copyMachine makes a root with the small tools of this machine, and python3.
func copyMachine(root string) error {
	for _, dir := range []string{"etc", "tmp", "home", "var", "run", "bin", "usr/bin", "root", "dev", "proc", "sys"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	// Names that do not match any more are left out: a case that needs one says so.
	script := `set -e
list=$(dpkg -L coreutils dash bash grep sed findutils procps util-linux mount tar gzip hostname libc-bin openssl curl | grep -E '^(/usr)?/s?bin/.' | sort -u)
python=$(readlink -f /usr/bin/python3)
for f in $list $python; do
	[ -f "$f" ] && [ ! -L "$f" ] || continue
	echo "$f"
	ldd "$f" 2>/dev/null | grep -oE '/[^ ]+' || true
done | sort -u | while read -r f; do mkdir -p "$1$(dirname "$f")"; cp -L "$f" "$1$f"; done
ln -s dash "$1/bin/sh"
ln -sf "$(basename "$python")" "$1/usr/bin/python3"
echo 'root:x:0:0:root:/root:/bin/sh
user:x:1000:1000:user:/home/user:/bin/sh' >"$1/etc/passwd"
echo 'root:x:0:
user:x:1000:' >"$1/etc/group"
mkdir -p "$1/etc/ssl/certs"
cp -L /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"
mkdir -p "$1/usr/lib"
for d in /usr/lib/python3*; do [ "$d" = /usr/lib/python3 ] || cp -a "$d" "$1/usr/lib/"; done
`
	if out, err := exec.Command("bash", "-c", script, "bash", root).CombinedOutput(); err != nil {
		return errors.New(string(out))
	}
	return nil
}

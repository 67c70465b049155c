package image

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/layer"
)

// TestSudo: the template has the sandbox's sudo before the machine's own, and another
// one makes another template.
func TestSudo(t *testing.T) {
	root, home := fakeHost(t)
	h := newHost(t, root, home)
	before, err := h.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if h.cfg.Sudo, err = os.Open("/proc/self/exe"); err != nil {
		t.Fatal(err)
	}
	defer h.cfg.Sudo.Close()
	h.cfg.SudoKey = "one"
	tree, err := h.Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(tree.Root, ownBin, "sudo"))
	if err != nil || info.Mode() != 0o755 || tree.Digest == before {
		t.Errorf("%v, %v, %s", info, err, tree.Digest)
	}
	if own, usr := strings.Index(tree.Path, ownBin), strings.Index(tree.Path, "/usr/bin"); own < 0 || own > usr {
		t.Errorf("PATH is %s", tree.Path)
	}
}

// fakeHost makes a small machine.
func fakeHost(t *testing.T) (root, home string) {
	t.Helper()
	root, home = filepath.Join(t.TempDir(), "host"), filepath.Join(t.TempDir(), "home")
	file := func(p string, mode os.FileMode, text string) {
		p = filepath.Join(root, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
	}
	file("usr/bin/python3", 0o755, "#!")
	file("usr/bin/su", 0o755|os.ModeSetuid, "#!")
	file("usr/bin/wall", 0o755|os.ModeSetgid, "#!")
	file("usr/lib/secret", 0o640, "s")
	file("usr/lib/private/key", 0o644, "s")
	if err := os.Chmod(filepath.Join(root, "usr/lib/private"), 0o750); err != nil {
		t.Fatal(err)
	}
	file("etc/os-release", 0o644, "ID=test\n")
	file("etc/shadow", 0o644, "root:hash\n") // readable by mistake, still not copied
	file("etc/npmrc", 0o644, "token\n")
	file("etc/services", 0o644, "http 80/tcp\n")
	file("etc/ssl/certs/a.pem", 0o644, "-----BEGIN CERTIFICATE-----\n")
	file("etc/ssl/certs/b.pem", 0o644, "-----BEGIN RSA PRIVATE KEY-----\n")
	file("etc/ssl/certs/c.pem", 0o600, "-----BEGIN CERTIFICATE-----\n")
	file("etc/ssl/private/k.pem", 0o644, "k")
	if err := unix.Mkfifo(filepath.Join(root, "usr/lib/pipe"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("usr/bin", filepath.Join(root, "bin")); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"sdk/go1.20/bin/go", "sdk/go1.26/bin/go", "sdk/notgo/bin/other", ".nvm/versions/node/v20/bin/node"} {
		p = filepath.Join(home, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte("#!"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root, home
}

func newHost(t *testing.T, root, home string) *Host {
	t.Helper()
	store, err := layer.Open(filepath.Join(t.TempDir(), "layers"))
	if err != nil {
		t.Fatal(err)
	}
	return NewHost(Config{Store: store, Home: home, root: root})
}

func TestPrepareHides(t *testing.T) {
	root, home := fakeHost(t)
	h := newHost(t, root, home)
	tree, err := h.Prepare(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	mounts := map[string][]string{}
	for _, m := range tree.Mounts {
		mounts[m.Target] = m.Lowers
	}
	usr := mounts["/usr"]
	if len(usr) != 2 || usr[1] != filepath.Join(root, "usr") {
		t.Fatalf("/usr is made of %q", usr)
	}
	for _, p := range []string{"bin/su", "bin/wall", "lib/secret", "lib/private", "lib/pipe"} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(usr[0], p), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != 0 {
			t.Errorf("%s has no whiteout: %v", p, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(usr[0], "bin/python3")); err == nil {
		t.Error("python3 is hidden")
	}
	if got := mounts["/opt/go"]; len(got) != 1 || got[0] != filepath.Join(home, "sdk/go1.26") {
		t.Errorf("/opt/go is made of %q", got)
	}
	if mounts["/opt/node"] == nil || mounts["/opt/python"] != nil {
		t.Errorf("mounts: %v", mounts)
	}
	if !strings.Contains(tree.Path, "/opt/go/bin") {
		t.Errorf("PATH is %s", tree.Path)
	}
	for p, want := range map[string]bool{"os-release": true, "services": true, "ssl/certs/a.pem": true, "passwd": true,
		"shadow": false, "npmrc": false, "ssl/certs/b.pem": false, "ssl/certs/c.pem": false, "ssl/private": false} {
		if _, err := os.Lstat(filepath.Join(tree.Root, "etc", p)); (err == nil) != want {
			t.Errorf("/etc/%s is there: %v, want %v", p, err == nil, want)
		}
	}
	for _, m := range tree.Mounts {
		if fi, err := os.Stat(filepath.Join(tree.Root, m.Target)); err != nil || !fi.IsDir() {
			t.Errorf("the mount point %s is missing", m.Target)
		}
	}
	r := h.Report(context.Background())
	if r.Error != "" || r.Hidden != 7 || r.Digest != string(tree.Digest) {
		t.Errorf("report %+v", r)
	}
	for _, tool := range r.Tools {
		if tool.Name == "python3" && (!tool.Present || tool.Path != "/usr/bin/python3") {
			t.Errorf("python3: %+v", tool)
		}
		if tool.Name == "go" && tool.Path != "/opt/go/bin/go" {
			t.Errorf("go: %+v", tool)
		}
	}
}

// TestPython makes templates of machines with python3 alone, with a python of their own, and
// with neither: the first gets a link of the template's, last in the PATH.
func TestPython(t *testing.T) {
	for name, c := range map[string]struct {
		change func(root string) error
		link   string
	}{
		"python3 alone": {func(string) error { return nil }, "/usr/bin/python3"},
		"both":          {func(root string) error { return os.Symlink("python3", filepath.Join(root, "usr/bin/python")) }, ""},
		"neither":       {func(root string) error { return os.Remove(filepath.Join(root, "usr/bin/python3")) }, ""},
		// Anyone who may not run python3 outside may not inside either.
		"hidden": {func(root string) error { return os.Chmod(filepath.Join(root, "usr/bin/python3"), 0o750) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			root, home := fakeHost(t)
			if err := c.change(root); err != nil {
				t.Fatal(err)
			}
			tree, err := newHost(t, root, home).Prepare(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			link, _ := os.Readlink(filepath.Join(tree.Root, ownBin, "python"))
			if link != c.link || strings.Contains(tree.Path, ":"+ownBin+":") != (c.link != "") {
				t.Errorf("python leads to %q, PATH is %s; want %q", link, tree.Path, c.link)
			}
			profile, err := os.ReadFile(filepath.Join(tree.Root, "etc/profile"))
			if err != nil || strings.Contains(string(profile), ownBin) != (c.link != "") {
				t.Errorf("/etc/profile, %v:\n%s", err, profile)
			}
		})
	}
}

// TestMountsBelowUsr mounts something of the same file system below /usr. An overlay
// shows what lies below a mount point, so a directory needs a mount of its own and a
// file is hidden. The control is the same tree before.
func TestMountsBelowUsr(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	root, home := fakeHost(t)
	prepare := func() layer.Tree {
		t.Helper()
		tree, err := newHost(t, root, home).Prepare(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return tree
	}
	source := func(tree layer.Tree, target string) string {
		for _, m := range tree.Mounts {
			if m.Target == target {
				return m.Lowers[len(m.Lowers)-1]
			}
		}
		return ""
	}
	hidden := func(tree layer.Tree, name string) bool {
		_, err := os.Lstat(filepath.Join(tree.Mounts[0].Lowers[0], name))
		return err == nil
	}
	dir, file := filepath.Join(root, "usr/lib/below"), filepath.Join(root, "usr/bin/python3")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if before := prepare(); source(before, "/usr/lib/below") != "" || hidden(before, "bin/python3") {
		t.Fatalf("control: without a mount: %v", before.Mounts)
	}
	other := t.TempDir()
	if err := os.Chmod(other, 0o755); err != nil {
		t.Fatal(err)
	}
	over := filepath.Join(other, "python3")
	if err := os.WriteFile(over, []byte("#!"), 0o755); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{other: dir, over: file} {
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(to, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
	after := prepare()
	if got := source(after, "/usr/lib/below"); got != dir {
		t.Errorf("the mount below /usr is shown from %q", got)
	}
	if !hidden(after, "bin/python3") {
		t.Error("what lies below a file that is a mount point is shown")
	}
}

// TestRustup takes the toolchain that rustup would run, and nothing that its
// settings lead out of its directory.
func TestRustup(t *testing.T) {
	root, home := t.TempDir(), t.TempDir()
	for _, name := range []string{"beta", "stable"} {
		program(t, filepath.Join(home, ".rustup/toolchains", name, "bin/rustc"))
		program(t, filepath.Join(home, ".rustup/toolchains", name, "bin/cargo"))
	}
	for settings, want := range map[string]string{
		"version = \"12\"\ndefault_toolchain = \"beta\"\n": ".rustup/toolchains/beta",
		"default_toolchain=\"stable\"":                     ".rustup/toolchains/stable",
		// Without a default that is there it is the newest.
		"default_toolchain = \"../../..\"": ".rustup/toolchains/stable",
		"default_toolchain = \"nightly\"":  ".rustup/toolchains/stable",
		"profile = \"default\"":            ".rustup/toolchains/stable",
	} {
		if err := os.WriteFile(filepath.Join(home, ".rustup/settings.toml"), []byte(settings), 0o644); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, c := range findChains(Config{root: root, Home: home}) {
			if c.name == "rust" {
				got, _ = filepath.Rel(home, c.dir)
			}
		}
		if got != want {
			t.Errorf("%q shows %q, want %q", settings, got, want)
		}
	}
}

// program makes an executable file.
func program(t *testing.T, p string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte("#!"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestToolchains takes what a choice names, the newest of several versions, and nothing that lies behind a link.
func TestToolchains(t *testing.T) {
	root, home, elsewhere := t.TempDir(), t.TempDir(), t.TempDir()
	for _, p := range []string{"usr/bin/rustc", "usr/bin/node", "opt/gradle-8.5/bin/gradle"} {
		program(t, filepath.Join(root, p))
	}
	for _, p := range []string{".nvm/versions/node/v9.1.0/bin/node", ".nvm/versions/node/v20.11.1/bin/node", ".nvm/versions/node/v20.9.0/bin/node",
		".rustup/toolchains/nightly-x86_64-unknown-linux-gnu/bin/rustc", ".rustup/toolchains/nightly-x86_64-unknown-linux-gnu/bin/cargo",
		".rustup/toolchains/half/bin/rustc", ".sdkman/candidates/java/17.0.9-tem/bin/java", ".sdkman/candidates/java/21.0.1-tem/bin/java"} {
		program(t, filepath.Join(home, p))
	}
	program(t, filepath.Join(elsewhere, "3.3.0/bin/ruby"))
	for link, target := range map[string]string{".rbenv/versions": elsewhere, ".sdkman/candidates/java/current": "17.0.9-tem"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(home, link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(home, link)); err != nil {
			t.Fatal(err)
		}
	}
	const rust, java, gradle = "rust=nightly-x86_64-unknown-linux-gnu", "java=17.0.9-tem", "gradle=gradle-8.5"
	for words, want := range map[string]string{
		"":                 rust + " " + java + " " + gradle, // Debian's rustc has no cargo
		"auto":             rust + " " + java + " " + gradle,
		"none":             "",
		"node":             "node=v20.11.1",
		"node@9":           "node=v9.1.0",
		"node@v20.9":       "node=v20.9.0",
		"node@2":           "",
		"java@21":          "java=21.0.1-tem",
		"auto rust@stable": java + " " + gradle,
		"auto node ruby":   "node=v20.11.1 " + rust + " " + java + " " + gradle,
	} {
		var got []string
		for _, c := range findChains(Config{root: root, Home: home, Toolchains: strings.Fields(words)}) {
			got = append(got, c.name+"="+versionOf(c.dir))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q shows %q, want %q", words, got, want)
		}
	}
	for _, words := range []string{"none auto", "cobol", "../../root", "rust auto /opt/x"} {
		if err := CheckToolchains(strings.Fields(words)); err == nil {
			t.Errorf("%q is taken", words)
		}
	}
}

// TestCredentials hides files with credentials in a toolchain; the control is a file of another name beside each.
func TestCredentials(t *testing.T) {
	root, home := fakeHost(t)
	dir := filepath.Join(home, ".nvm/versions/node/v20")
	secret := []string{"etc/npmrc", "pip.conf", "lib/credentials.toml", ".npmrc", "conf/settings.xml", "lib/.netrc"}
	for _, p := range secret {
		program(t, filepath.Join(dir, p))
		program(t, filepath.Join(dir, p+".txt"))
	}
	tree, err := newHost(t, root, home).Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range tree.Mounts {
		if m.Target != "/opt/node" {
			continue
		}
		if len(m.Lowers) != 2 {
			t.Fatalf("no mask: %v", m)
		}
		for _, p := range secret {
			if _, err := os.Lstat(filepath.Join(m.Lowers[0], p)); err != nil {
				t.Errorf("%s is shown", p)
			}
			if _, err := os.Lstat(filepath.Join(m.Lowers[0], p+".txt")); err == nil {
				t.Errorf("control: %s.txt is hidden", p)
			}
		}
		return
	}
	t.Fatal("node is not shown")
}

func TestFingerprintChanges(t *testing.T) {
	root, home := fakeHost(t)
	for _, p := range []string{filepath.Join(root, "usr/local/lib/python3.11/dist-packages"), filepath.Join(home, ".nvm/versions/node/v20/lib/node_modules")} {
		if err := os.MkdirAll(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h := newHost(t, root, home)
	first, err := h.Prepare(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	again, err := h.Prepare(context.Background())
	if err != nil || again.Digest != first.Digest {
		t.Fatalf("an unchanged host has another digest: %v", err)
	}
	for name, change := range map[string]func() error{
		"a setuid bit":  func() error { return os.Chmod(filepath.Join(root, "usr/bin/python3"), 0o755|os.ModeSetuid) },
		"a new program": func() error { return os.WriteFile(filepath.Join(root, "usr/bin/new"), nil, 0o755) },
		"a certificate": func() error { return os.WriteFile(filepath.Join(root, "etc/ssl/certs/n.pem"), nil, 0o644) },
		"a toolchain":   func() error { return os.Rename(filepath.Join(home, "sdk/go1.26"), filepath.Join(home, "sdk/go1.27")) },
		"a library": func() error {
			return os.Mkdir(filepath.Join(root, "usr/local/lib/python3.11/dist-packages/numpy"), 0o755)
		},
		"a toolchain's library": func() error {
			return os.Mkdir(filepath.Join(home, ".nvm/versions/node/v20/lib/node_modules/typescript"), 0o755)
		},
		"the os-release": func() error { return os.WriteFile(filepath.Join(root, "etc/os-release"), []byte("ID=other\n"), 0o644) },
	} {
		before, err := h.Digest()
		if err != nil {
			t.Fatal(err)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if after, err := h.Digest(); err != nil || after == before {
			t.Errorf("%s does not change the fingerprint (%v)", name, err)
		}
	}
}

// TestAlike: a copy of a machine has the same digest if it is asked for, another one otherwise, and another one after any change. Either digest is known as that of the machine.
func TestAlike(t *testing.T) {
	root, home := fakeHost(t)
	copied := filepath.Join(t.TempDir(), "copy")
	if out, err := exec.Command("cp", "-a", root, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const mode, deep = "usr/bin/python3", "usr/lib/a/b/c/d"
	for _, r := range []string{root, copied} {
		file := filepath.Join(r, deep)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("one"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	digest := func(root string, alike bool) layer.Digest {
		t.Helper()
		h := newHost(t, root, home)
		h.cfg.Alike = alike
		d, err := h.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	one := digest(root, true)
	if digest(copied, true) != one || digest(root, false) == digest(copied, false) {
		t.Errorf("the copy is %s, the machine %s", digest(copied, true), one)
	}
	for _, d := range []layer.Digest{one, digest(copied, false)} {
		if same, err := newHost(t, copied, home).Shows(d); err != nil || !same {
			t.Errorf("the copy does not show %s: %v", d, err)
		}
	}
	if same, err := newHost(t, copied, home).Shows(digest(root, false)); err != nil || same {
		t.Errorf("the copy shows what is the machine's alone: %v", err)
	}
	in := func(p string) string { return filepath.Join(copied, p) }
	last := one
	for _, change := range []struct {
		what string
		do   func() error
	}{
		{"a mode", func() error { return os.Chmod(in(mode), 0o700) }},
		{"a time", func() error { return os.Chtimes(in(deep), time.Unix(1, 0), time.Unix(1, 1)) }},
		{"a size", func() error {
			return errors.Join(os.WriteFile(in(deep), []byte("longer"), 0o644), os.Chtimes(in(deep), time.Unix(1, 0), time.Unix(1, 1)))
		}},
		{"a name", func() error { return os.Rename(in(deep), in(deep+"e")) }},
		{"a link", func() error { return os.Symlink("e", in(deep)) }},
		{"another target", func() error { return errors.Join(os.Remove(in(deep)), os.Symlink("f", in(deep))) }},
		{"a certificate", func() error { return os.WriteFile(in("etc/ssl/certs/n.pem"), nil, 0o644) }},
		{"a directory less", func() error { return os.RemoveAll(in("usr/lib/a")) }},
	} {
		if err := change.do(); err != nil {
			t.Fatal(err)
		}
		now := digest(copied, true)
		if now == last {
			t.Errorf("%s does not change the digest", change.what)
		}
		last = now
	}
	if same, err := newHost(t, copied, home).Shows(one); err != nil || same {
		t.Errorf("after its changes the copy shows the same: %v", err)
	}
}

// removing is a hash that removes a file when it has heard of another one.
type removing struct {
	hash.Hash
	at, gone string
	text     strings.Builder
}

func (r *removing) Write(b []byte) (int, error) {
	if strings.Contains(string(b), r.at) {
		_ = os.Remove(r.gone)
	}
	return r.text.Write(b)
}

// TestAlikeWhileFilesGo: a file that goes during the look is noted as gone, and those after it are noted, too.
func TestAlikeWhileFilesGo(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := &removing{Hash: sha256.New(), at: `"usr/a"`, gone: filepath.Join(dir, "b")}
	if err := noteAll(r, "usr", dir); err != nil {
		t.Fatal(err)
	}
	if said := r.text.String(); !strings.Contains(said, "\"usr/b\" is not there\n") || !strings.Contains(said, "\"usr/c\" 100644") {
		t.Errorf("noted:\n%s", said)
	}
}

func TestPrepareThisMachine(t *testing.T) {
	h := newHost(t, "/", os.Getenv("HOME"))
	tree, err := h.Prepare(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	r := h.Report(context.Background())
	t.Logf("%d hidden, PATH %s, mounts %v", r.Hidden, tree.Path, tree.Mounts)
	for _, tool := range r.Tools {
		t.Logf("%s %v %s", tool.Name, tool.Present, tool.Path)
	}
	for _, p := range []string{"etc/shadow", "etc/ssh", "etc/npmrc", "etc/pip.conf", "etc/ssl/private", "etc/gshadow"} {
		if _, err := os.Lstat(filepath.Join(tree.Root, p)); err == nil {
			t.Errorf("/%s is shown", p)
		}
	}
}

func BenchmarkPrepareUnchanged(b *testing.B) {
	store, err := layer.Open(filepath.Join(b.TempDir(), "layers"))
	if err != nil {
		b.Fatal(err)
	}
	h := NewHost(Config{Store: store, Home: os.Getenv("HOME")})
	if _, err := h.Prepare(context.Background()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := h.Prepare(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

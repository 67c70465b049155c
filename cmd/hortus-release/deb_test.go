package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// builtDeb writes a package with a small program and returns its path.
func builtDeb(t *testing.T, version string, at time.Time) string {
	t.Helper()
	t.Chdir("../..") // release reads the files of the source tree
	dir := t.TempDir()
	binary := filepath.Join(dir, "hortus")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\necho hortus "+version+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := builder{target: target{"linux", "amd64"}, version: version, at: at}
	name, err := b.deb(dir, binary, []byte("terms\n"))
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

var packageTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestDebIsReproducible(t *testing.T) {
	var contents [3][]byte
	for i, at := range []time.Time{packageTime, packageTime, packageTime.Add(time.Minute)} {
		t.Run("", func(t *testing.T) {
			content, err := os.ReadFile(builtDeb(t, "v1.2.3", at))
			if err != nil {
				t.Fatal(err)
			}
			contents[i] = content
		})
	}
	if len(contents[0]) == 0 || !bytes.Equal(contents[0], contents[1]) {
		t.Error("two packages of the same content differ")
	}
	if bytes.Equal(contents[0], contents[2]) {
		t.Error("control: packages of different times are equal")
	}
}

func TestDebVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "1.2.3", "v1.2.3-rc1": "1.2.3~rc1", "v1.2.3-4-g0abc": "1.2.3+4.g0abc", "v1.2.3-4-g0abc-dirty": "1.2.3+4.g0abc.dirty",
		"v1.2.3-rc.1-4-g0abc": "1.2.3~rc.1+4.g0abc", "v0.0.0-ci": "0.0.0~ci", "8ca9e08": "0~8ca9e08", "dev": "0~dev", "8ca9e08-dirty": "0~8ca9e08.dirty",
	} {
		if got := debVersion(version); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
	dpkg, err := exec.LookPath("dpkg")
	if err != nil {
		t.Skip("the order of versions is not checked: there is no dpkg on this machine")
	}
	order := []string{"dev", "v1.2.3-rc1", "v1.2.3-rc1-4-g0abc", "v1.2.3", "v1.2.3-4-g0abc", "v1.2.4"}
	for i := range order[1:] {
		a, b := debVersion(order[i]), debVersion(order[i+1])
		if out, err := exec.Command(dpkg, "--compare-versions", a, "lt", b).CombinedOutput(); err != nil {
			t.Errorf("dpkg does not order %s before %s: %v %s", a, b, err, out)
		}
	}
}

// TestDebInstalls installs, upgrades, removes and purges the package with dpkg, in a
// separate directory.
func TestDebInstalls(t *testing.T) {
	dpkg, err := exec.LookPath("dpkg")
	if err != nil {
		t.Skip("there is no dpkg on this machine")
	}
	if os.Geteuid() != 0 {
		t.Skip("dpkg installs as root only")
	}
	root := t.TempDir()
	for _, d := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		t.Helper()
		args = append([]string{"--root=" + root, "--force-script-chrootless", "--force-architecture", "--log=/dev/null"}, args...)
		if out, err := exec.CommandContext(t.Context(), dpkg, args...).CombinedOutput(); err != nil {
			t.Fatalf("dpkg %q: %v\n%s", args, err, out)
		}
	}
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
		}
		return string(content)
	}
	exists := func(name string) bool {
		_, err := os.Lstat(filepath.Join(root, name))
		return err == nil
	}
	run("--install", builtDeb(t, "v1.2.3", packageTime))
	if out, err := exec.CommandContext(t.Context(), filepath.Join(root, packageBinary)).CombinedOutput(); err != nil || string(out) != "hortus v1.2.3\n" {
		t.Errorf("the installed program: %s, %v", out, err)
	}
	if unit := read("usr/lib/systemd/system/hortus.service"); strings.Count(unit, "\nExecStart="+packageBinary+" daemon run") != 1 {
		t.Errorf("the unit starts something else:\n%s", unit)
	}
	for _, name := range []string{
		"usr/lib/systemd/system/hortus.service", "usr/lib/systemd/user/hortus.service",
		"usr/share/bash-completion/completions/hortus", "usr/share/zsh/vendor-completions/_hortus", "usr/share/fish/vendor_completions.d/hortus.fish",
	} {
		if strings.Contains(read(name), removedByUninstall) {
			t.Errorf("hortus uninstall would remove %s, which dpkg owns", name)
		}
	}
	config := filepath.Join(root, "etc/hortus/config.toml")
	if err := os.WriteFile(config, []byte("quiet = true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run("--install", builtSibling(t, "v1.2.4"))
	if got := read("etc/hortus/config.toml"); got != "quiet = true\n" {
		t.Errorf("the upgrade replaced the changed configuration: %s", got)
	}
	run("--remove", "hortus")
	if exists(packageBinary) || exists("usr/lib/systemd/system/hortus.service") || !exists("etc/hortus/config.toml") {
		t.Error("removal leaves the program, or takes the configuration")
	}
	run("--purge", "hortus")
	if exists("etc/hortus") {
		t.Error("purge leaves the configuration")
	}
}

// builtSibling is builtDeb for a test that already runs in the source tree.
func builtSibling(t *testing.T, version string) string {
	t.Helper()
	t.Chdir("cmd/hortus-release")
	return builtDeb(t, version, packageTime)
}

// TestMarkOfUninstall: the package removes the same mark that installed files have.
// Otherwise "hortus uninstall" would remove the package's files.
func TestMarkOfUninstall(t *testing.T) {
	for _, name := range []string{
		"packaging/systemd/hortus.service", "packaging/systemd/user/hortus.service",
		"internal/cli/completion/scripts/hortus.bash", "internal/cli/completion/scripts/hortus.zsh", "internal/cli/completion/scripts/hortus.fish",
	} {
		content, err := os.ReadFile("../../" + name)
		if err != nil || !bytes.Contains(content, []byte(removedByUninstall)) {
			t.Errorf("%s has no mark %s, %v", name, removedByUninstall, err)
		}
	}
}

// TestContainerfile: the container file copies files of the archive, by their names there.
func TestContainerfile(t *testing.T) {
	t.Chdir("../..")
	dir := t.TempDir()
	name, err := writeContainerfile(dir, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	archived := map[string]bool{"hortus": true, "THIRD_PARTY_LICENSES": true}
	for _, f := range (builder{target: target{"linux", "amd64"}}).extras() {
		archived[f.name] = true
	}
	var copied []string
	for line := range strings.Lines(string(content)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		switch words[0] {
		case "ARG", "FROM", "RUN", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD":
		case "COPY":
			for _, w := range words[1 : len(words)-1] {
				if source, ok := strings.CutPrefix(w, "/unpack/hortus/"); ok {
					copied = append(copied, source)
				} else if w != "--from=unpack" && w != "hortus_${VERSION}_linux_${TARGETARCH}.tar.gz" {
					t.Errorf("COPY of %s", w)
				}
			}
		default:
			t.Errorf("instruction %q", words[0])
		}
	}
	if len(copied) == 0 || copied[0] != "hortus" {
		t.Errorf("copied: %q", copied)
	}
	for _, name := range copied {
		if !archived[name] {
			t.Errorf("%s is not in the archive", name)
		}
	}
	if !strings.Contains(string(content), "\nARG VERSION=v1.2.3\n") {
		t.Error("the version is not in it")
	}
}

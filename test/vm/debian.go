package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// recipe is this file: an image is what it makes of the packages.
//
//go:embed debian.go
var recipe string

// kernelPackage depends on Debian's current kernel for virtual machines: the same
// source and version as its kernel for any machine, with fewer drivers.
const kernelPackage = "linux-image-cloud-amd64"

// programs are what the machine's file system is made of, with all that they
// depend on.
var programs = []string{"base-files", "base-passwd", "bash", "coreutils", "dash", "dbus", "findutils", "grep", "gzip", "hostname",
	"mount", "nfs-kernel-server", "perl-base", "procps", "python3", "sed", "systemd", "tar", "util-linux"}

// drivers are loaded by the machine before it mounts its disks, with what they
// depend on. What the kernel has built in is passed over.
var drivers = []string{"virtio_pci", "virtio_blk", "virtio_console", "virtio-rng", "overlay", "nfsd", "nfsv4"}

// command runs a program of the host; its output is shown only if it fails.
func command(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out.String(), errOut.String())
	}
	return out.String(), nil
}

// debian is the cache of Debian's packages and of what is made from them.
type debian struct {
	dir string
}

// fresh are the options by which apt sees a machine where nothing is installed,
// and keeps what it downloads in dir.
func (d debian) fresh(dir string) ([]string, error) {
	if err := os.MkdirAll(filepath.Join(dir, "partial"), 0o755); err != nil {
		return nil, err
	}
	status := filepath.Join(dir, "status")
	if err := os.WriteFile(status, nil, 0o644); err != nil {
		return nil, err
	}
	return []string{"-y", "-q", "--no-install-recommends", "-o", "Dir::State::status=" + status, "-o", "Dir::Cache::archives=" + dir,
		"-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=root"}, nil
}

// kernel returns the path of the kernel's image and the folder of its modules.
func (d debian) kernel(ctx context.Context) (image, modules string, err error) {
	out, err := command(ctx, "apt-cache", "depends", "--no-recommends", "--no-suggests", kernelPackage)
	if err != nil {
		return "", "", err
	}
	name := ""
	for line := range strings.Lines(out) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: linux-image-"); ok {
			name = "linux-image-" + p
		}
	}
	if name == "" {
		return "", "", fmt.Errorf("apt-cache knows no %s: a Debian machine with filled package lists is needed", kernelPackage)
	}
	show, err := command(ctx, "apt-cache", "show", "--no-all-versions", name)
	if err != nil {
		return "", "", err
	}
	version := field(show, "Version")
	root := filepath.Join(d.dir, name+"_"+strings.ReplaceAll(version, ":", "-"))
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		if err := d.unpackKernel(ctx, name, root); err != nil {
			return "", "", err
		}
	} else if err != nil {
		return "", "", err
	}
	images, err := filepath.Glob(filepath.Join(root, "boot/vmlinuz-*"))
	if err != nil || len(images) != 1 {
		return "", "", fmt.Errorf("%s holds %d kernels", root, len(images))
	}
	return images[0], filepath.Join(root, "lib/modules"), nil
}

func (d debian) unpackKernel(ctx context.Context, name, root string) error {
	tmp, err := os.MkdirTemp(d.dir, "kernel-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	get := exec.CommandContext(ctx, "apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", name)
	get.Dir = tmp
	if out, err := get.CombinedOutput(); err != nil {
		return fmt.Errorf("download %s: %w\n%s", name, err, out)
	}
	debs, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("apt-get downloaded %d packages for %s", len(debs), name)
	}
	if _, err := command(ctx, "dpkg-deb", "-x", debs[0], filepath.Join(tmp, "root")); err != nil {
		return err
	}
	return os.Rename(filepath.Join(tmp, "root"), root)
}

// rootImage makes the machine's file system, an ext4 with room, and gives its
// path. It is made once for each set of packages.
func (d debian) rootImage(ctx context.Context) (string, error) {
	tmp, err := os.MkdirTemp(d.dir, "root-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	packages := filepath.Join(tmp, "packages")
	options, err := d.fresh(packages)
	if err != nil {
		return "", err
	}
	install := func(how string) (string, error) {
		return command(ctx, "apt-get", append(append(options, how, "install"), programs...)...)
	}
	versions, err := install("--simulate")
	if err != nil {
		return "", fmt.Errorf("Debian's apt-get with filled package lists is needed (apt-get update): %w", err)
	}
	image := filepath.Join(d.dir, fmt.Sprintf("root-%.16x.ext4", sha256.Sum256([]byte(versions+recipe))))
	if _, err := os.Stat(image); err == nil {
		return image, nil
	}
	if _, err := install("--download-only"); err != nil {
		return "", err
	}
	debs, err := filepath.Glob(filepath.Join(packages, "*.deb"))
	if err != nil || len(debs) == 0 {
		return "", fmt.Errorf("apt-get downloaded nothing: %v", err)
	}
	root := filepath.Join(tmp, "root")
	// One /usr, as Debian installs it: the links first, the packages through them.
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(filepath.Join(root, "usr", dir), 0o755); err != nil {
			return "", err
		}
		if err := os.Symlink("usr/"+dir, filepath.Join(root, dir)); err != nil {
			return "", err
		}
	}
	script := `set -e; for d; do dpkg-deb --fsys-tarfile "$d" | tar -x --keep-directory-symlink --no-same-owner -p -C "$ROOT"; done`
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-o", "pipefail", "-c", script, "unpack"}, debs...)...)
	cmd.Env = append(os.Environ(), "ROOT="+root)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpack the programs: %w\n%s", err, out)
	}
	if err := configure(root); err != nil {
		return "", err
	}
	if err := d.makeImage(ctx, root, image, "8G"); err != nil {
		return "", err
	}
	return image, nil
}

// configure does what the packages' own scripts would have done.
func configure(root string) error {
	for from, to := range map[string]string{"usr/share/base-passwd/passwd.master": "etc/passwd", "usr/share/base-passwd/group.master": "etc/group"} {
		b, err := os.ReadFile(filepath.Join(root, from))
		if err != nil {
			return err
		}
		if strings.HasSuffix(to, "passwd") {
			b = append(b, "user:x:1000:1000::/home/user:/bin/bash\nmessagebus:x:100:100::/nonexistent:/usr/sbin/nologin\n"...)
		} else {
			b = append(b, "user:x:1000:\nmessagebus:x:100:\n"...)
		}
		if err := os.WriteFile(filepath.Join(root, to), b, 0o644); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{"etc/hosts": "127.0.0.1 localhost\n", "etc/hostname": "vm\n", "etc/machine-id": "",
		"etc/shadow": "root:*:1::::::\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(root, "etc/shadow"), 0o600); err != nil {
		return err
	}
	for _, dir := range []string{"dev", "proc", "sys", "run", "tmp", "home/user", "tests", "usr/local/bin", "usr/local/lib", "usr/local/share"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(filepath.Join(root, "usr/bin/awk")); err != nil {
		_ = os.Symlink("mawk", filepath.Join(root, "usr/bin/awk"))
	}
	return os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky)
}

// makeImage makes an ext4 image from a folder; everything in it is root's.
func (d debian) makeImage(ctx context.Context, from, image, size string) error {
	part := image + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	args := []string{"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,root_owner=0:0", "-d", from, part, size}
	if os.Geteuid() != 0 {
		args = append([]string{"unshare", "-r"}, args...)
	}
	if _, err := command(ctx, args[0], args[1:]...); err != nil {
		return err
	}
	return os.Rename(part, image)
}

// modules gives the paths of the drivers and of what they depend on, in the order
// of loading.
func modulePaths(dir string, want []string) ([]string, error) {
	byName := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(filepath.Base(p), ".ko"); err == nil && ok {
			byName[canonical(name)] = p
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var out []string
	var add func(name string) error
	add = func(name string) error {
		p, ok := byName[canonical(name)]
		if !ok || slices.Contains(out, p) {
			return nil
		}
		deps, err := dependencies(p)
		if err != nil {
			return err
		}
		for _, dep := range deps {
			if err := add(dep); err != nil {
				return err
			}
		}
		out = append(out, p)
		return nil
	}
	for _, name := range want {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no module of %s in %s", strings.Join(want, ", "), dir)
	}
	return out, nil
}

func canonical(module string) string { return strings.ReplaceAll(module, "-", "_") }

// dependencies reads a module's own list.
func dependencies(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", path, err)
	}
	defer f.Close()
	s := f.Section(".modinfo")
	if s == nil {
		return nil, fmt.Errorf("module %s tells nothing of itself", path)
	}
	b, err := s.Data()
	if err != nil {
		return nil, err
	}
	for _, item := range strings.Split(string(b), "\x00") {
		if list, ok := strings.CutPrefix(item, "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}

// field reads one field of a package's description.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

package kernel

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/backend/microvm/inside"
)

const (
	// maxImage and maxModule are the maximum sizes of a kernel and of a module, in bytes.
	maxImage, maxModule = 256 << 20, 32 << 20
	// maxModules is the maximum size of all modules of a kernel, in bytes, which are in memory while it is installed.
	maxModules = 512 << 20
)

// found is what was read of a kernel.
type found struct {
	release string
	image   []byte
	modules map[string][]byte
	size    int
}

// Install installs a kernel into a directory. from is a package of Debian, or a directory with boot/vmlinuz-RELEASE and
// lib/modules/RELEASE, such as / on a machine with that kernel. digest is the SHA-256 of the package, or of the kernel in
// the directory; if it is empty it is not compared. New machines have the kernel that was installed last.
//
// Errors: KindInvalid if it is no kernel, or has another digest.
func Install(ctx context.Context, dir, from, digest string) (Kernel, error) {
	k, err := install(ctx, dir, from, digest)
	var e *api.Error
	if err != nil && !errors.As(err, &e) {
		err = api.Errorf(api.KindInvalid, "install a kernel from %s: %w", from, err)
	}
	return k, err
}

func install(ctx context.Context, dir, from, digest string) (k Kernel, err error) {
	fi, err := os.Stat(from)
	if err != nil {
		return k, err
	}
	f := &found{modules: map[string][]byte{}}
	if fi.IsDir() {
		err = f.readDir(ctx, from)
		k.Digest = sum(f.image)
	} else {
		if k.Digest, err = sumFile(from); err == nil && (digest == "" || digest == k.Digest) {
			err = f.readPackage(ctx, from)
		}
	}
	if err != nil {
		return k, err
	}
	if digest != "" && digest != k.Digest {
		return k, api.Errorf(api.KindInvalid, "%s has the digest %s, not %.64s", from, k.Digest, digest).WithHint("Nothing was installed. Get the file again, or correct the digest.")
	}
	names, err := order(f.modules, Modules)
	if err != nil {
		return k, err
	}
	var modules bytes.Buffer
	c := &cpio{w: &modules}
	c.add(inside.ModuleDir[1:], modeDir|0o755, nil)
	for i, name := range names {
		c.add(fmt.Sprintf("%s/%02d-%s.ko", inside.ModuleDir[1:], i, name), modeFile|0o644, f.modules[name])
	}
	if err := c.end(); err != nil {
		return k, err
	}
	k.Release = f.release
	return k, k.write(dir, f.image, modules.Bytes())
}

// write writes the files of a kernel, the record last.
func (k *Kernel) write(dir string, image, modules []byte) error {
	own := filepath.Join(dir, k.Digest[:16])
	if err := os.MkdirAll(own, 0o755); err != nil {
		return err
	}
	k.Image, k.Modules = filepath.Join(own, imageName), filepath.Join(own, modulesName)
	record, err := json.Marshal(k)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		path string
		data []byte
	}{{k.Image, image}, {k.Modules, modules}, {filepath.Join(dir, recordName), append(record, '\n')}} {
		if err := replace(f.path, f.data); err != nil {
			return err
		}
	}
	return nil
}

// replace writes a file aside and renames it. Everybody may read it: the machines of sandboxes have users of their own.
func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "new-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func sumFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// take takes a file of a package: the kernel, or a module.
func (f *found) take(name string, r io.Reader) error {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "."), "/")
	if release, ok := strings.CutPrefix(name, "boot/vmlinuz-"); ok {
		if f.image != nil {
			return errors.New("it has more than one kernel")
		}
		f.release = release
		var err error
		f.image, err = readBounded(r, maxImage)
		return err
	}
	if !strings.Contains("/"+name, "/lib/modules/") {
		return nil
	}
	module, ok := moduleName(name)
	if !ok {
		if base := filepath.Base(name); strings.Contains(base, ".ko.") {
			return fmt.Errorf("the module %s is compressed; install an uncompressed kernel, such as Debian's linux-image-cloud-amd64", base)
		}
		return nil
	}
	b, err := readBounded(r, maxModule)
	if f.size += len(b); f.size > maxModules {
		return fmt.Errorf("its modules have more than %d bytes", maxModules)
	}
	f.modules[module] = b
	return err
}

func (f *found) complete() error {
	switch {
	case f.image == nil:
		return errors.New("it has no boot/vmlinuz-RELEASE")
	case len(f.modules) == 0:
		return errors.New("it has no modules in lib/modules")
	}
	return nil
}

func readBounded(r io.Reader, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("a file has more than %d bytes", most)
	}
	return b, err
}

// readPackage reads a package of Debian, which dpkg-deb unpacks.
func (f *found) readPackage(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("packages need the program dpkg-deb: %w", err)
	}
	t := tar.NewReader(out)
	for err == nil {
		var h *tar.Header
		if h, err = t.Next(); err == nil && h.Typeflag == tar.TypeReg {
			err = f.take(h.Name, t)
		}
	}
	if err == io.EOF {
		err = f.complete()
	} else {
		cmd.Process.Kill()
	}
	io.Copy(io.Discard, out)
	if werr := cmd.Wait(); werr != nil && stderr.Len() > 0 {
		err = fmt.Errorf("%.300s", strings.TrimSpace(stderr.String()))
	}
	return err
}

// readDir reads the newest kernel of a directory.
func (f *found) readDir(ctx context.Context, dir string) error {
	all, err := filepath.Glob(filepath.Join(dir, "boot/vmlinuz-*"))
	if err != nil || len(all) == 0 {
		return errors.Join(err, f.complete())
	}
	open := func(path, name string) error {
		r, err := os.Open(path)
		if err != nil {
			return err
		}
		defer r.Close()
		return f.take(name, r)
	}
	image := all[len(all)-1]
	if err := open(image, "boot/"+filepath.Base(image)); err != nil {
		return err
	}
	root := filepath.Join(dir, "lib/modules", f.release)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return open(path, "lib/modules/"+d.Name())
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return f.complete()
}

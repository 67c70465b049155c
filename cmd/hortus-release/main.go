package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hortus.dev/internal/platform/embedded"
)

// target is a system to build for.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

// targets lists all supported targets.
var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// versionForm matches valid versions. A version becomes part of file names.
var versionForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$`)

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	version := flags.String("version", "", "the version; it is stamped into the binaries")
	out := flags.String("out", "dist", "the output directory; its contents are removed")
	var chosen []target
	flags.Func("target", "an OS/ARCH to build for; repeatable (default: all)", func(s string) error {
		i := slices.IndexFunc(targets, func(t target) bool { return t.String() == s })
		if i < 0 {
			return fmt.Errorf("unknown target %q; use %v", s, targets)
		}
		chosen = append(chosen, targets[i])
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if !versionForm.MatchString(*version) {
		return fmt.Errorf("-version %q: use letters, digits, dots, + and -", *version)
	}
	if len(chosen) == 0 {
		chosen = targets
	}
	at, err := modTime(ctx)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "hortus-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := clearDir(*out); err != nil {
		return err
	}
	var names, sums []string
	for _, t := range chosen {
		b := builder{target: t, version: *version, tmp: tmp, at: at}
		made, err := b.build(ctx, *out)
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		names = append(names, made...)
	}
	if slices.ContainsFunc(chosen, func(t target) bool { return t.os == "linux" }) {
		name, err := writeContainerfile(*out, *version)
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(*out, name))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		sums = append(sums, hex.EncodeToString(sum[:])+"  "+name)
		fmt.Printf("%s  %d bytes\n", sums[len(sums)-1], len(content))
	}
	slices.SortFunc(sums, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	return os.WriteFile(filepath.Join(*out, "SHA256SUMS"), []byte(strings.Join(sums, "\n")+"\n"), 0o644)
}

// modTime returns the modification time of all files in the archives: SOURCE_DATE_EPOCH,
// or the time of the commit.
func modTime(ctx context.Context) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		b, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct").Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("read the time of the commit: %w; set SOURCE_DATE_EPOCH if git is not available", err)
		}
		text = strings.TrimSpace(string(b))
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 315532800 || n > 4102444800 { // from 1980, the minimum of zip, to 2100
		return time.Time{}, fmt.Errorf("%q is not a valid time", text)
	}
	return time.Unix(n, 0).UTC(), nil
}

// clearDir empties the output directory. It refuses a directory that contains files other
// than those of a release.
func clearDir(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range list {
		if name := e.Name(); name != "SHA256SUMS" && !strings.HasPrefix(name, "hortus_") {
			return fmt.Errorf("%s has %s, which is not a release", dir, name)
		}
	}
	for _, e := range list {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return os.MkdirAll(dir, 0o755)
}

// builder builds for one target.
type builder struct {
	target
	version string
	tmp     string
	at      time.Time
}

// build writes one archive and, for Linux, a Debian package, and returns their names.
func (b builder) build(ctx context.Context, out string) ([]string, error) {
	name := fmt.Sprintf("hortus_%s_%s_%s", b.version, b.os, b.arch)
	dir := filepath.Join(b.tmp, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	linked := map[string]string{} // binary -> directory of its module
	args := []string{"-ldflags", "-s -w -X hortus.dev/internal/platform/version.release=" + b.version}
	binary := filepath.Join(dir, "hortus")
	if b.os == "windows" {
		binary += ".exe"
	}
	if b.os == "linux" {
		overlay, err := b.embed(ctx, linked)
		if err != nil {
			return nil, err
		}
		args = append(args, "-tags", "embedguest,embedrunsc", "-overlay", overlay)
	}
	if err := b.gobuild(ctx, ".", binary, "./cmd/hortus", args...); err != nil {
		return nil, err
	}
	linked[binary] = "."
	text, err := licenses(ctx, linked)
	if err != nil {
		return nil, err
	}
	terms := filepath.Join(b.tmp, name+"-licenses")
	if err := os.WriteFile(terms, text, 0o600); err != nil {
		return nil, err
	}
	files := []file{{name: filepath.Base(binary), path: binary, mode: 0o755}, {name: "THIRD_PARTY_LICENSES", path: terms, mode: 0o644}}
	for _, f := range b.extras() {
		files = append(files, file{name: f.name, path: f.path, mode: 0o644})
	}
	slices.SortFunc(files, func(x, y file) int { return strings.Compare(x.name, y.name) })
	archive, write := name+".tar.gz", writeTar
	if b.os == "windows" {
		archive, write = name+".zip", writeZip
	}
	var buf bytes.Buffer
	if err := write(&buf, name, files, b.at); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(out, archive), buf.Bytes(), 0o644); err != nil || b.os != "linux" {
		return []string{archive}, err
	}
	deb, err := b.deb(out, binary, text)
	return []string{archive, deb}, err
}

// extras returns the files of an archive other than the binary.
func (b builder) extras() []file {
	out := []file{{name: "LICENSE", path: "LICENSE"}, {name: "README.md", path: "README.md"}}
	if b.os != "windows" {
		for _, shell := range []string{"bash", "zsh", "fish"} {
			out = append(out, file{name: "completion/hortus." + shell, path: "internal/cli/completion/scripts/hortus." + shell})
		}
	}
	if b.os == "linux" {
		out = append(out, file{name: "systemd/hortus.service", path: "packaging/systemd/hortus.service"},
			file{name: "systemd/user/hortus.service", path: "packaging/systemd/user/hortus.service"})
	}
	return out
}

// embed builds the small guest and gVisor, and returns an overlay file with which the
// compiler embeds them without changes to the source tree. It adds them to linked, with
// the directories of their modules.
func (b builder) embed(ctx context.Context, linked map[string]string) (overlay string, err error) {
	replace := map[string]string{}
	for name, module := range map[string]string{"hortus-guest": ".", "hortus-runsc": "cmd/hortus-runsc"} {
		out := filepath.Join(b.tmp, name+"-"+b.arch)
		pkg := "hortus.dev/cmd/" + name
		flags := []string{"-ldflags", "-s -w"}
		if name == "hortus-runsc" {
			// A path that does not depend on where the source tree is: it is in the executable.
			const bin = "../../bin"
			patch := exec.CommandContext(ctx, "go", "run", "./patch", bin)
			patch.Dir, patch.Env = module, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
			if text, err := patch.CombinedOutput(); err != nil {
				return "", fmt.Errorf("go run ./patch: %w\n%s", err, text)
			}
			flags = append(flags, "-modfile="+bin+"/gvisor.mod")
		}
		if err := b.gobuild(ctx, module, out, pkg, flags...); err != nil {
			return "", err
		}
		place, err := filepath.Abs("internal/platform/embedded/guest/" + name)
		if err != nil {
			return "", err
		}
		linked[out] = module
		if name == "hortus-runsc" {
			place += ".packed"
			if out, err = pack(out); err != nil {
				return "", err
			}
		}
		replace[place] = out
	}
	doc, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(b.tmp, "overlay-"+b.arch+".json")
	return overlay, os.WriteFile(overlay, doc, 0o600)
}

// pack compresses gVisor beside its executable.
func pack(path string) (packed string, err error) {
	b, err := os.ReadFile(path)
	if err == nil {
		b, err = embedded.Pack(b)
	}
	if err != nil {
		return "", err
	}
	return path + ".packed", os.WriteFile(path+".packed", b, 0o600)
}

// gobuild runs go build for the target, in the directory of a module. out must be an
// absolute path.
func (b builder) gobuild(ctx context.Context, module, out, pkg string, args ...string) error {
	args = append([]string{"build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-o", out}, args...)
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = module
	// Set the levels of the instruction sets, so that they do not depend on this machine.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+b.os, "GOARCH="+b.arch, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=")
	text, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return nil
}

package oci

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/oci/settings"
	"hortus.dev/internal/storage/oci/source"
	"hortus.dev/internal/storage/oci/users"
	"hortus.dev/internal/storage/unpack"
)

// format is part of the digests of the layers that are made here: change it when their content
// changes.
const format = "hortus image layers 1"

// ownBin contains the programs that Hortus adds.
const ownBin = "/opt/hortus/bin"

// defaultPath is the PATH of an image that sets none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Bounds of what an image says about commands.
const (
	maxEnv     = 512
	maxEnvSize = 64 << 10 // bytes of all variables
	maxCommand = 64 << 10 // bytes of the arguments
)

// baseDirs are the directories that must exist in every sandbox, for mounts and for ownBin.
var baseDirs = []string{"proc", "sys", "dev", "opt", "opt/hortus", "opt/hortus/bin"}

// made returns the digest of a layer that is made from these parts.
func made(parts ...string) layer.Digest {
	h := sha256.New()
	for _, p := range append([]string{format}, parts...) {
		io.WriteString(h, p)
		h.Write([]byte{0})
	}
	return layer.Digest("sha256-" + hex.EncodeToString(h.Sum(nil)))
}

// finish makes the two layers above those of the image.
func (p *puller) finish(ctx context.Context, img *source.Image, layers []layer.Digest) ([]layer.Digest, settings.Settings, error) {
	var set settings.Settings
	view, skipped, err := openStack(p.cfg.Layers, layers)
	if err != nil {
		return nil, set, err
	}
	defer view.close()
	layers = layers[skipped:]
	passwd, err := view.read("/etc/passwd")
	if err != nil {
		return nil, set, asInvalid("/etc/passwd", err)
	}
	group, err := view.read("/etc/group")
	if err != nil {
		return nil, set, asInvalid("/etc/group", err)
	}
	passwd, group = complete(passwd, ownUsers), complete(group, ownGroups)
	var search string
	if set, search, err = settingsOf(img.Settings, passwd, group); err != nil {
		return nil, set, err
	}
	var missing []dirEntry
	if missing, err = view.missing(set.Dir); err != nil {
		return nil, set, asInvalid(set.Dir, err)
	}
	if p.cfg.Sudo != nil {
		search = ownBin + ":" + search
	}
	base := made("base", p.cfg.SudoKey)
	if err := p.put(ctx, base, p.base); err != nil {
		return nil, set, err
	}
	original := settings.Original(img.Settings)
	described, err := json.Marshal([]any{set, missing, original})
	if err != nil {
		return nil, set, err
	}
	top := made("top", string(described), search, passwd, group)
	err = p.put(ctx, top, func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		files := map[string]string{"etc/passwd": passwd, "etc/group": group}
		if err := makeDirs(root, []string{"", "etc"}); err != nil {
			return layer.Tree{}, err
		}
		if err := makeEntries(root, missing); err != nil {
			return layer.Tree{}, err
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
				return layer.Tree{}, err
			}
		}
		return layer.Tree{Root: root, Path: search}, errors.Join(settings.Write(dir, set), settings.WriteOriginal(dir, original))
	})
	return append(slices.Clone(layers), base, top), set, err
}

// put makes a layer of this package and holds it.
func (p *puller) put(ctx context.Context, d layer.Digest, build func(context.Context, string) (layer.Tree, error)) error {
	for try := 0; ; try++ {
		if _, err := p.cfg.Layers.Put(ctx, d, build); err != nil {
			return err
		}
		if err := p.hold(d); api.KindOf(err) != api.KindNotFound || try == 3 {
			return err
		}
	}
}

// base builds the layer that all images share.
func (p *puller) base(_ context.Context, dir string) (layer.Tree, error) {
	root := filepath.Join(dir, "root")
	if err := makeDirs(root, append([]string{""}, baseDirs...)); err != nil {
		return layer.Tree{}, err
	}
	if p.cfg.Sudo != nil {
		f, err := os.OpenFile(filepath.Join(root, ownBin, "sudo"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
		if err != nil {
			return layer.Tree{}, err
		}
		_, err = io.Copy(f, io.NewSectionReader(p.cfg.Sudo, 0, 1<<40))
		if err := errors.Join(err, f.Chmod(0o755), f.Close(), os.Symlink("sudo", filepath.Join(root, ownBin, envd.CodeProgram))); err != nil {
			return layer.Tree{}, err
		}
	}
	return layer.Tree{Root: root}, nil
}

func makeDirs(root string, names []string) error {
	for _, name := range names {
		p := filepath.Join(root, name)
		if err := os.Mkdir(p, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := os.Chmod(p, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// makeEntries makes directories, each after the one above it.
func makeEntries(root string, entries []dirEntry) error {
	for _, e := range entries {
		p := filepath.Join(root, e.Path)
		if err := os.Mkdir(p, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if os.Geteuid() == 0 {
			if err := os.Lchown(p, e.UID, e.GID); err != nil {
				return err
			}
		}
		if err := unix.Chmod(p, e.Mode|0o700); err != nil {
			return err
		}
	}
	return nil
}

// dirEntry is a directory of the top layer.
type dirEntry struct {
	Path     string
	Mode     uint32
	UID, GID int
}

// missing returns the directories that a layer must have so that dir exists: those of the path
// that are there, with their attributes, and those that are not. It returns none if dir exists, or
// if a link is part of the path: the command then fails if nothing is there.
func (s *stack) missing(dir string) ([]dirEntry, error) {
	if dir == "" || dir == "/" {
		return nil, nil
	}
	at := &found{dirs: s.roots}
	defer func() { at.close(s) }()
	var out []dirEntry
	done, absent := "", false
	for name := range strings.SplitSeq(strings.TrimPrefix(dir, "/"), "/") {
		done = path.Join(done, name)
		e := dirEntry{Path: done, Mode: 0o755}
		if !absent {
			mode, _, below, err := step(at.dirs, name)
			at.close(s)
			at.dirs = below
			switch {
			case err != nil:
				return nil, err
			case mode == 0:
				absent = true
			case mode&unix.S_IFMT == unix.S_IFLNK:
				return nil, nil
			case mode&unix.S_IFMT != unix.S_IFDIR:
				return nil, api.Errorf(api.KindInvalid, "the working directory %.200q of the image is a file", dir)
			default:
				var st unix.Stat_t
				if err := unix.Fstat(below[0], &st); err != nil {
					return nil, err
				}
				e.Mode, e.UID, e.GID = st.Mode&0o7777, int(st.Uid), int(st.Gid)
			}
		}
		out = append(out, e)
	}
	if !absent {
		return nil, nil
	}
	return out, nil
}

func asInvalid(name string, err error) error {
	if api.KindOf(err) == api.KindInvalid {
		return err
	}
	return api.Errorf(api.KindInvalid, "read %.200s of the image: %w", name, err)
}

// settingsOf validates what an image says about commands. It returns the PATH separately.
func settingsOf(c source.Settings, passwd, group string) (out settings.Settings, search string, err error) {
	if out.User, err = users.Find(c.User, passwd, group); err != nil {
		return out, "", err
	}
	search, total := defaultPath, 0
	out.Env = map[string]string{}
	for _, v := range c.Env {
		name, value, ok := strings.Cut(v, "=")
		if !ok {
			continue // Docker takes it from its host, which is not done here
		}
		if total += len(v); total > maxEnvSize || len(out.Env) == maxEnv {
			return out, "", api.Errorf(api.KindInvalid, "the image sets more than %d variables or %d bytes of them", maxEnv, maxEnvSize)
		}
		switch name {
		case "PATH":
			search = value
		case "HOME", "USER", "LOGNAME": // of the user of a command
		default:
			out.Env[name] = value
		}
	}
	if err := api.CheckEnv(out.Env); err != nil {
		return out, "", api.Errorf(api.KindInvalid, "the environment of the image: %w", err)
	}
	if strings.ContainsAny(search, "\x00\n") || len(search) > 8<<10 {
		return out, "", api.Errorf(api.KindInvalid, "the PATH of the image is malformed")
	}
	if c.WorkingDir != "" {
		out.Dir = path.Clean("/" + c.WorkingDir)
		if len(out.Dir) > 2048 || strings.Count(out.Dir, "/") > 64 || strings.ContainsAny(out.Dir, "\x00\n") {
			return out, "", api.Errorf(api.KindInvalid, "the working directory of the image is malformed")
		}
	}
	out.Entrypoint, out.Cmd = c.Entrypoint, c.Cmd
	size := 0
	for _, arg := range out.Command() {
		if size += len(arg) + 1; size > maxCommand || strings.ContainsRune(arg, 0) {
			return out, "", api.Errorf(api.KindInvalid, "the command of the image is malformed or has more than %d bytes", maxCommand)
		}
	}
	return out, search, nil
}

func envNames(env map[string]string) []string { return slices.Sorted(maps.Keys(env)) }

// resultFile is beside the root of a layer and says what was unpacked.
const resultFile = "unpacked.json"

func writeResult(dir string, r unpack.Result) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, resultFile), b, 0o644)
}

// count adds what a layer holds to the sum of the image.
func (p *puller) count(d layer.Digest) {
	b, err := os.ReadFile(filepath.Join(p.cfg.Layers.Dir(), string(d), resultFile))
	var r unpack.Result
	if err != nil || json.Unmarshal(b, &r) != nil {
		return // only the sum in a list lacks it
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total.Bytes += r.Bytes
	p.total.Skipped += r.Skipped
	p.total.Dropped += r.Dropped
}

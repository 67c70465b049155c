package setup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/dependency"
	"hortus.dev/internal/task/repo"
)

// seal makes a layer of what the steps wrote.
func (j *job) seal(ctx context.Context, ws api.WorkspaceID) (l repo.Layer, release func(), err error) {
	err = j.q.Step(ctx, api.RepoStepEvent{Step: step, Detail: "sealing the result"}, func() (string, error) {
		w, err := j.cfg.Sandboxes.Written(ctx, ws)
		if api.KindOf(err) == api.KindExhausted {
			return "", &failure{err: err, step: "sealing the result"}
		}
		if err != nil {
			return "", err
		}
		defer w.Close()
		c := pick(w.Files, j.q)
		record, err := j.made.file()
		if err != nil {
			return "", err
		}
		l, release, err = j.cfg.Sandboxes.Layer(ctx, layerKey(j.key, j.n), func(ctx context.Context, dir string) error {
			return write(ctx, dir, append(c.files, record))
		})
		return c.text(w.Refused), err
	})
	return l, release, err
}

// recordPath is the file of a layer that says how it was made, and maxRecord its maximum size in bytes.
const (
	recordName = "setup.json"
	recordPath = ".git/hortus/" + recordName
	maxRecord  = 64 << 10
)

// record says how a layer was made.
type record struct {
	// Commit is the one whose setup it is.
	Commit       string             `json:"commit,omitempty"`
	NotInstalled []api.NotInstalled `json:"notInstalled,omitempty"`
	// Path is the PATH of the sandbox.
	Path string `json:"path,omitempty"`
}

// origin names the commit whose setup was made, if it is another one.
func (r record) origin(commit string) string {
	if r.Commit == "" || r.Commit == commit {
		return ""
	}
	return fmt.Sprintf(" (installed for commit %.10s)", r.Commit)
}

// file is the record as a file of its layer.
func (r record) file() (File, error) {
	b, err := json.Marshal(r)
	if err != nil || len(b) > maxRecord {
		return File{}, api.Errorf(api.KindInternal, "the record of the setup has %d bytes: %w", len(b), err)
	}
	return File{Path: recordPath, Size: int64(len(b)), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }}, nil
}

// selection are the files of a layer.
type selection struct {
	files []File // with the path in the layer
	bytes int64
	// changed counts files of the repository that the steps changed or removed.
	changed int
	// elsewhere counts files outside of the directory of the repository.
	elsewhere int
}

// text says what it is, with what was refused.
func (c selection) text(refused []api.RefusedChange) string {
	s := fmt.Sprintf("sealed %d files, %.1f MB", len(c.files), float64(c.bytes)/1e6)
	if c.changed > 0 {
		s += fmt.Sprintf("; %d changed files of the repository are left out", c.changed)
	}
	if c.elsewhere > 0 {
		s += fmt.Sprintf("; %d files outside of the repository are left out", c.elsewhere)
	}
	if n := len(refused); n > 0 {
		s += fmt.Sprintf("; %d entries are left out, such as %s (%s)", n, refused[0].Path, refused[0].Why)
	}
	return s
}

// pick chooses what is sealed: everything that is not of the repository. What lies outside moves to its place.
func pick(all []File, q repo.SetupRequest) (out selection) {
	// Directories of the repository may have new files, its files may not become directories.
	tracked := make(map[string]bool, len(q.Files))
	for _, f := range q.Files {
		tracked[path.Join(q.Dir, f.Path)] = true
	}
	agents := strings.TrimPrefix(repo.Agents, dependency.Cache+"/")
	cache := strings.TrimPrefix(dependency.Cache, dependency.Workspace+"/")
	for _, f := range all {
		name := f.Path
		rest, isOutside := strings.CutPrefix(name, outside+"/")
		switch {
		case isOutside && !q.Agent && (rest == agents || strings.HasPrefix(rest, agents+"/")):
			// It would be the program of an agent, or its configuration.
			out.elsewhere++
			continue
		case isOutside && (rest == recordName || strings.HasPrefix(rest, recordName+"/")):
			out.elsewhere++
			continue
		case isOutside:
			f.Path = path.Join(cache, rest)
			if strings.HasPrefix(f.Path, cache+"/go/build/") {
				// Go notes when it uses an entry of its cache, unless that seems to be recent. In an overlay that
				// would copy the entry.
				f.ModTime = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
			}
		case f.Delete || underTracked(tracked, name):
			out.changed++
			continue
		case q.Dir != "" && !strings.HasPrefix(name, q.Dir+"/"):
			// It would be in another repository, which this one must not set up.
			out.elsewhere++
			continue
		}
		if f.Delete {
			continue
		}
		out.files = append(out.files, f)
		out.bytes += f.Size
	}
	return out
}

// underTracked reports whether a path is a file of the repository, or in the place of one.
func underTracked(tracked map[string]bool, p string) bool {
	for ; p != "."; p = path.Dir(p) {
		if tracked[p] {
			return true
		}
	}
	return false
}

// write writes files below dir. No path leaves it, whatever links are among the files.
func write(ctx context.Context, dir string, files []File) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return api.Errorf(api.KindInternal, "seal the setup: %w", err)
	}
	defer root.Close()
	made := map[string]bool{".": true}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := parents(root, path.Dir(f.Path), made); err != nil {
			return api.Errorf(api.KindInternal, "seal %.200q: %w", f.Path, err)
		}
		if err := one(root, f); err != nil {
			return api.Errorf(api.KindOf(err), "seal %.200q: %w", f.Path, err)
		}
	}
	return nil
}

// parents makes a directory with those above it.
func parents(root *os.Root, dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	if err := parents(root, path.Dir(dir), made); err != nil {
		return err
	}
	if err := root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	made[dir] = true
	return root.Chmod(dir, 0o755)
}

// maxLink is the maximum size of a link's target, in bytes.
const maxLink = 4095

// one writes a file and checks its size.
func one(root *os.Root, f File) error {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	if f.Link {
		target, err := io.ReadAll(io.LimitReader(in, maxLink+1))
		if err != nil || len(target) == 0 || len(target) > maxLink {
			return errors.Join(errors.New("the target of a link cannot be read"), err)
		}
		return root.Symlink(string(target), f.Path)
	}
	mode := os.FileMode(0o644)
	if f.Executable {
		mode = 0o755
	}
	to, err := root.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer to.Close()
	n, err := io.Copy(to, io.LimitReader(in, f.Size+1))
	if err == nil && n != f.Size {
		err = fmt.Errorf("it has %d bytes instead of %d", n, f.Size)
	}
	if err == nil {
		err = to.Chmod(mode)
	}
	if err == nil {
		err = to.Close()
	}
	if err != nil || f.ModTime.IsZero() {
		return err
	}
	return root.Chtimes(f.Path, f.ModTime, f.ModTime)
}

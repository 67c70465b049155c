package catalogue

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/replay"
	"hortus.dev/internal/platform/config"
)

// keys returns the values in an environment that must never be written to a recording:
// those of variables whose names end like those of keys.
func keys(environ []string) []string {
	var out []string
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		name = strings.ToUpper(name)
		if strings.HasPrefix(name, config.OwnPrefix) && strings.HasSuffix(name, "_KEY_SECRET") {
			continue // the name of a secret
		}
		for _, end := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS"} {
			if value = strings.TrimSpace(value); value != "" && strings.HasSuffix(name, end) {
				out = append(out, value)
			}
		}
	}
	return out
}

// Recording writes the calls of models to a file.
type Recording struct {
	*replay.Recorder
	file *os.File
}

// Record starts a recording in a new file. A client chose the path, so an existing file is
// not overwritten and a symbolic link is not followed.
func Record(path string, models map[string]string) (*Recording, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, api.Errorf(api.KindInvalid, "the recording %s already exists", path).
			WithHint("Use the name of a new file; a recording is never overwritten.")
	case err != nil:
		return nil, api.Errorf(api.KindInvalid, "create the recording: %w", err)
	}
	rec, err := replay.NewRecorder(replay.RecorderConfig{W: f, Secrets: keys(os.Environ()), Models: models})
	if err != nil {
		return nil, errors.Join(err, (&Recording{nil, f}).Discard())
	}
	return &Recording{rec, f}, nil
}

// Close ends the recording. Its file survives a loss of power.
func (r *Recording) Close() error { return errors.Join(r.file.Sync(), r.file.Close()) }

// Discard ends the recording and removes its file.
func (r *Recording) Discard() error { return errors.Join(r.file.Close(), os.Remove(r.file.Name())) }

// Open returns the model with a name. The error is KindInvalid for an unknown name or an
// unusable recording, and KindUnauthenticated if the key of the model is missing.
func (c *Catalogue) Open(name string) (model.Model, error) {
	if path, ok := strings.CutPrefix(name, replay.Prefix); ok {
		return player(path)
	}
	return c.find(name)
}

// player returns a model that answers from a recording.
func player(path string) (model.Model, error) {
	name := replay.Prefix + path
	if !filepath.IsAbs(path) {
		return nil, api.Errorf(api.KindInvalid, "model %q: the path of a recording must be absolute", name)
	}
	// Opening a pipe or a device must not block the daemon.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "open the recording: %w", err)
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, api.Errorf(api.KindInvalid, "%s is not a recording: it is not a regular file", path)
	}
	rec, err := replay.Parse(f)
	if err != nil {
		e := api.AsError(err)
		return nil, api.Errorf(e.Kind, "%s: %w", path, err).WithHint("%s", e.Hint)
	}
	return replay.NewPlayer(replay.PlayerConfig{Recording: rec, Name: name, Secrets: keys(os.Environ())}), nil
}

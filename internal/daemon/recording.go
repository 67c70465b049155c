package daemon

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
	"hortus.dev/internal/task"
)

// secrets are the values of this process's environment that must never be
// written: those whose names say that they are keys.
func secrets(environ []string) []string {
	var out []string
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		name = strings.ToUpper(name)
		for _, end := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS"} {
			if value = strings.TrimSpace(value); value != "" && strings.HasSuffix(name, end) {
				out = append(out, value)
			}
		}
	}
	return out
}

// recording is the file of a recording.
type recording struct {
	*replay.Recorder
	file *os.File
}

// record begins a recording. The path is the caller's, who is this daemon's own
// user: nothing that is there is followed or overwritten.
func record(path string, models map[string]string) (task.Recording, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, api.Errorf(api.KindInvalid, "the recording %s is there already", path).
			WithHint("Name a file that is not there yet; a recording is never overwritten.")
	case err != nil:
		return nil, api.Errorf(api.KindInvalid, "make the recording: %w", err)
	}
	rec, err := replay.NewRecorder(replay.RecorderConfig{W: f, Secrets: secrets(os.Environ()), Models: models})
	if err != nil {
		return nil, errors.Join(err, recording{nil, f}.Discard())
	}
	return recording{rec, f}, nil
}

// Close implements task.Recording. What was recorded survives a loss of power.
func (r recording) Close() error { return errors.Join(r.file.Sync(), r.file.Close()) }

// Discard implements task.Recording.
func (r recording) Discard() error { return errors.Join(r.file.Close(), os.Remove(r.file.Name())) }

// open finds a model, or the recording that the name leads to.
func (c catalogue) open(name string) (model.Model, error) {
	if path, ok := strings.CutPrefix(name, replay.Prefix); ok {
		return player(path)
	}
	return c.find(name)
}

// player opens a recording to answer from it.
func player(path string) (model.Model, error) {
	name := replay.Prefix + path
	if !filepath.IsAbs(path) {
		return nil, api.Errorf(api.KindInvalid, "model %q: the path of a recording is absolute", name)
	}
	// A pipe or a device would keep the daemon waiting.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "open the recording: %w", err)
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, api.Errorf(api.KindInvalid, "%s is no recording: it is no regular file", path)
	}
	rec, err := replay.Parse(f)
	if err != nil {
		e := api.AsError(err)
		return nil, api.Errorf(e.Kind, "%s: %w", path, err).WithHint("%s", e.Hint)
	}
	return replay.NewPlayer(replay.PlayerConfig{Recording: rec, Name: name, Secrets: secrets(os.Environ())}), nil
}

package session

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/task/repo"
)

// files are what sessions have on the disk beside their workspaces.
type files struct {
	// root has a folder for each session, tasks one for each task.
	root, tasks string
	log         *slog.Logger
}

// dir is the folder of a session.
func (s files) dir(id api.SessionID) string { return filepath.Join(s.root, string(id)) }

// makeDir makes it. It is there before anything else of the session but its row.
func (s files) makeDir(id api.SessionID) error {
	if err := os.MkdirAll(s.dir(id), 0o700); err != nil {
		return api.Errorf(api.KindInternal, "create the directory of a session: %w", err)
	}
	return nil
}

// transcript is the file with what was said in a turn.
func (s files) transcript(id api.SessionID, n int) string {
	return filepath.Join(s.dir(id), strconv.Itoa(n)+".jsonl")
}

// keepTranscript keeps what was said in a turn for those after it, also when its task is removed.
func (s files) keepTranscript(o *openSession, t turn) {
	if t.Task == "" {
		return
	}
	err := s.makeDir(o.ID)
	if err == nil {
		err = link(repo.TranscriptPath(filepath.Join(s.tasks, string(t.Task))), s.transcript(o.ID, t.N))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Error("cannot keep the transcript of a turn; later turns continue without it", "session", o.ID, "turn", t.N, "err", err)
	}
}

// TakeTranscripts keeps what was said in a session on another node, of which a directory with what came with its workspace has files; empty for none.
func (s *Service) TakeTranscripts(id api.SessionID, dir string) error {
	if dir == "" {
		return nil
	}
	all, err := os.ReadDir(dir)
	if err == nil {
		err = s.files.makeDir(id)
	}
	for _, e := range all {
		name, _ := strings.CutSuffix(e.Name(), ".jsonl")
		n, nerr := strconv.Atoi(name)
		if to := s.files.transcript(id, n); err == nil && nerr == nil && e.Type().IsRegular() && filepath.Base(to) == e.Name() && !exists(to) {
			err = link(filepath.Join(dir, e.Name()), to)
		}
	}
	if err != nil {
		return api.Errorf(api.KindInternal, "keep the conversation of session %s: %w", id, err)
	}
	return nil
}

// link gives a file that does not change any more another name, or copies it.
func link(from, to string) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(from, to); err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// conversation are the turns up to one, in the order in which they were said.
func (o *openSession) conversation(to int) (all []turn) {
	for n := to; n > 0 && n <= len(o.turns) && len(all) < len(o.turns); n = o.turns[n-1].After {
		all = append(all, o.turns[n-1])
	}
	slices.Reverse(all)
	return all
}

// transcripts are the files of what was said so far.
func (s files) transcripts(o *openSession) (out []string) {
	for _, t := range o.conversation(o.At) {
		if name := s.transcript(o.ID, t.N); exists(name) || t.Copy != "" { // which may be with the workspace
			out = append(out, name)
		}
	}
	return out
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// emptyName is the name of the empty repository.
const emptyName = "empty.git"

// emptyRepository returns the repository of sessions without one: it has one commit, which has no files.
func (s files) emptyRepository() (string, error) {
	dir := filepath.Join(s.root, emptyName)
	if exists(dir) {
		return dir, nil
	}
	tmp, err := os.MkdirTemp(s.root, "empty-")
	if err == nil {
		err = writeEmpty(tmp)
	}
	if err == nil {
		err = os.Rename(tmp, dir)
	}
	if err != nil {
		os.RemoveAll(tmp)
		if exists(dir) { // another caller was faster
			return dir, nil
		}
		return "", api.Errorf(api.KindInternal, "create the empty repository of sessions: %w", err)
	}
	return dir, nil
}

// OwnEmpty has a turn of a session without a repository use the empty one of this daemon, if it began on another node.
func (s *Service) OwnEmpty(r *api.RepoTask) error {
	if filepath.Base(r.URL) != emptyName || !filepath.IsAbs(r.URL) || exists(r.URL) {
		return nil
	}
	url, err := s.files.emptyRepository()
	if err == nil {
		r.URL = url
	}
	return err
}

// writeEmpty writes a bare git repository with an empty commit on main, the same each time.
func writeEmpty(dir string) error {
	tree, err := writeObject(dir, "tree", nil)
	if err != nil {
		return err
	}
	const who = "Hortus <hortus@hortus.dev> 0 +0000"
	commit, err := writeObject(dir, "commit", fmt.Appendf(nil, "tree %s\nauthor %s\ncommitter %s\n\nAn empty workspace\n", tree, who, who))
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"HEAD": "ref: refs/heads/main\n", "refs/heads/main": commit + "\n",
		"config": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
	} {
		if err := write(filepath.Join(dir, name), []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// writeObject writes a loose object and returns its name.
func writeObject(dir, kind string, body []byte) (string, error) {
	raw := append(fmt.Appendf(nil, "%s %d\x00", kind, len(body)), body...)
	sum := sha1.Sum(raw)
	name := hex.EncodeToString(sum[:])
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, err := w.Write(raw)
	if err = errors.Join(err, w.Close()); err != nil {
		return "", err
	}
	return name, write(filepath.Join(dir, "objects", name[:2], name[2:]), b.Bytes())
}

func write(name string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, b, 0o644)
}

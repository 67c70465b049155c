package story

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	endian "encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hortus.dev/api"
)

// recovered starts a daemon, and wants nothing of the earlier one to be left but what can be used.
func (k *killing) recovered(what string) {
	k.t.Helper()
	until(k.t, what+": the tasks that go on end", func() string {
		for _, task := range decode[[]api.Task](k.t, k.g.must("task", "ls", "--json")) {
			if task.State != api.TaskDone {
				return fmt.Sprintf("task %s is %s", task.ID, task.State)
			}
		}
		return ""
	})
	for _, b := range decode[[]api.Sandbox](k.t, k.g.must("sandbox", "ls", "--json")) {
		switch {
		case b.State.Final():
		case b.Task != "":
			k.t.Errorf("%s: sandbox %s of task %s is %s", what, b.ID, b.Task, b.State)
		default: // the next daemon has it
			k.g.must("sandbox", "kill", string(b.ID))
		}
	}
	for _, w := range decode[[]api.Workspace](k.t, k.g.must("workspace", "ls", "--json")) {
		if w.State != api.WorkspaceIdle || w.Sandbox != "" {
			k.t.Errorf("%s: workspace %s %s is %s, sandbox %q", what, w.ID, w.Name, w.State, w.Sandbox)
		}
	}
	until(k.t, what+": nothing is left", func() string {
		left := k.g.leftoversAlive()
		for _, pattern := range []string{"layers/new-*", "workspaces/new-*", "workspaces/gone-*"} {
			left = append(left, k.glob(pattern)...)
		}
		for _, p := range k.g.orphans() {
			left = append(left, "process "+p.String())
		}
		return strings.Join(left, "\n")
	})
	for _, dir := range k.glob("layers/*") {
		if err := wholeLayer(dir); err != nil {
			k.t.Errorf("%s: layer %s: %v", what, filepath.Base(dir), err)
		}
	}
	if log := k.g.log(); strings.Contains(log, "corrupt") {
		k.t.Errorf("%s: something is corrupt:\n%s", what, log)
	}
}

// glob finds paths in the data directory.
func (k *killing) glob(pattern string) []string {
	k.t.Helper()
	found, err := filepath.Glob(filepath.Join(k.g.dir, pattern))
	if err != nil {
		k.t.Fatal(err)
	}
	return found
}

// wholeLayer wants a layer to have what its record says.
func wholeLayer(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "tree.json"))
	if err != nil {
		return err
	}
	var record struct {
		Digest, Root string
		Image        *struct {
			Bytes int64
			Sum   string
		}
	}
	if err := json.Unmarshal(b, &record); err != nil {
		return err
	}
	if record.Digest != filepath.Base(dir) {
		return fmt.Errorf("its record is of %s", record.Digest)
	}
	root := filepath.Join(dir, record.Root)
	st, err := os.Stat(root)
	switch {
	case err != nil:
		return err
	case record.Image == nil && !st.IsDir():
		return errors.New("it has no files")
	case record.Image == nil:
		return nil
	case st.Size() != record.Image.Bytes:
		return fmt.Errorf("its image has %d bytes, of %d", st.Size(), record.Image.Bytes)
	}
	f, err := os.Open(root)
	if err != nil {
		return err
	}
	defer f.Close()
	all := sha256.New()
	_ = endian.Write(all, endian.LittleEndian, st.Size())
	for {
		part := sha256.New()
		n, err := io.CopyN(part, f, 4<<20)
		if n > 0 {
			all.Write(part.Sum(nil))
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if sum := "sha256-4m-" + hex.EncodeToString(all.Sum(nil)); sum != record.Image.Sum {
		return fmt.Errorf("its image has the sum %s, not %s", sum, record.Image.Sum)
	}
	return nil
}

// create makes a new workspace.
func (k *killing) create() {
	k.t.Helper()
	k.shop, k.ledger = strings.TrimSpace(k.g.must("workspace", "create", "shop")), ledger{}
}

// removeAll removes everything. No lease may keep any of it.
func (k *killing) removeAll() {
	k.t.Helper()
	for _, w := range decode[[]api.Workspace](k.t, k.g.must("workspace", "ls", "--json")) {
		k.g.must("workspace", "rm", string(w.ID))
	}
	for _, r := range decode[[]api.Repository](k.t, k.g.must("repo", "ls", "--json")) {
		k.g.must("repo", "rm", r.Name)
	}
	out := k.g.must("gc", "--older-than", "0")
	for _, pattern := range []string{"layers/sha256-*", "workspaces/*", "repositories/*.git", "repositories/*.new", "tasks/*"} {
		if left := k.glob(pattern); len(left) > 0 {
			k.t.Errorf("after everything was removed there is %q; gc removed:\n%s", left, out)
		}
	}
}

// ledger is what was reported to be written to the workspace, by the number of the command.
type ledger map[int]written

// written are the files of one command.
type written struct {
	files int    // reported to be complete, of 1 to files
	sum   string // of the large file
}

// writes is a command that writes a large file and some small ones. It reports each one that is complete and synced.
func writes(n, files int) string {
	return fmt.Sprintf(`set -e; mkdir /workspace/w%[1]d; cd /workspace/w%[1]d; head -c 1500000 /dev/urandom >large; sync large; echo "sum %[1]d $(sha256sum <large)"
i=0; while [ $i -lt %[2]d ]; do i=$((i+1)); echo "%[1]d $i" >new; sync new; mv new $i; echo $i >>log; sync log; echo "done %[1]d $i"; done; echo end`, n, files)
}

// read notes what a command reported, which ends with the last line that is whole.
func (l ledger) read(n int, output string) {
	w := l[n]
	for line := range strings.Lines(output) {
		var i int
		var sum string
		if _, err := fmt.Sscanf(line, fmt.Sprintf("done %d %%d\n", n), &i); err == nil {
			w.files = max(w.files, i)
		} else if _, err := fmt.Sscanf(line, fmt.Sprintf("sum %d %%s -\n", n), &sum); err == nil {
			w.sum = sum
		}
	}
	l[n] = w
}

// check wants everything to be in the workspace, for the host and for the next sandbox.
func (l ledger) check(k *killing) {
	k.t.Helper()
	l.exported(k, "shop")
	l.within(k, "a sandbox", []byte(k.g.must("sandbox", "run", "--workspace", "shop", "--", "tar", "-C", "/workspace", "-c", ".")))
}

// exported wants everything to be in what is exported.
func (l ledger) exported(k *killing, name string) {
	k.t.Helper()
	l.within(k, "the export of "+name, []byte(k.g.must("workspace", "export", name)))
}

// within wants everything to be in a tar archive.
func (l ledger) within(k *killing, where string, archive []byte) {
	k.t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err == nil && h.Typeflag == tar.TypeReg {
			files[filepath.Clean(h.Name)], err = io.ReadAll(r)
		}
		if err != nil {
			k.t.Fatalf("%s: %v", where, err)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(l)) {
		w, dir := l[n], fmt.Sprintf("w%d/", n)
		if sum := sha256.Sum256(files[dir+"large"]); w.sum != "" && hex.EncodeToString(sum[:]) != w.sum {
			k.t.Errorf("%s: %slarge of %d bytes is not what was written", where, dir, len(files[dir+"large"]))
		}
		lines := bytes.Split(files[dir+"log"], []byte("\n"))
		for i := 1; i <= w.files; i++ {
			if got, want := string(files[fmt.Sprint(dir, i)]), fmt.Sprintf("%d %d\n", n, i); got != want {
				k.t.Errorf("%s: %s%d of %d has %q, want %q", where, dir, i, w.files, got, want)
			}
			if i > len(lines) || string(lines[i-1]) != fmt.Sprint(i) {
				k.t.Errorf("%s: %slog lacks line %d", where, dir, i)
			}
		}
	}
}

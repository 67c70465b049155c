package remote

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/backend/copied"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/workspace"
)

const (
	mountPoint = "/workspace"
	// maxList is the maximum size of the list of all files in a workspace, in bytes.
	maxList = 256 << 20
	// beforeName has the list of files at the start, for a daemon that adopts the machine.
	beforeName = "files"
)

// sigKill is SIGKILL in the guest's protocol.
const sigKill envd.Signal = 9

// files is what a machine has at /workspace.
type files struct {
	*copied.Files
	before map[string]stamp // the files at the start
}

// stamp changes whenever a file is changed or replaced: an inode, and the time of its last change, which a program
// cannot set.
type stamp struct {
	Kind workspace.Mode
	Text string
}

// attach leases what a Spec needs at /workspace; nil if w is.
func (b *Backend) attach(ctx context.Context, w *sandbox.Workspace) (*files, error) {
	f, err := copied.Attach(ctx, copied.Config{Layers: b.cfg.Layers, Workspaces: b.cfg.Workspaces}, w)
	if f == nil || err != nil {
		return nil, err
	}
	return &files{Files: f}, nil
}

// release releases the leases. It may be called for nil, and again.
func (f *files) release() {
	if f != nil {
		f.Release()
	}
}

// fill copies the workspace to the box.
func (m *machine) fill(ctx context.Context) error {
	f := m.files
	if f == nil {
		return nil
	}
	archive := m.scratch("workspace.tar")
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := f.Pack(ctx, w, "", 0)
		w.CloseWithError(err)
		packed <- err
	}()
	err := m.guest.WriteFile(ctx, "", archive, r)
	r.CloseWithError(errors.New("the upload has ended"))
	if perr := <-packed; perr != nil && err == nil {
		err = perr
	}
	if err == nil {
		err = m.run(ctx, `tar -xpf "$0" -C `+mountPoint+` && rm -f "$0"`, archive)
	}
	if err == nil && f.Durable() != nil {
		f.before, err = m.list(ctx)
	}
	if err == nil && f.Durable() != nil {
		err = f.writeBefore(m.b.dir(m.r.Spec.ID))
	}
	if err != nil {
		return fmt.Errorf("copy the workspace to the sandbox: %w", err)
	}
	return nil
}

// store copies what has changed in a durable workspace back.
func (m *machine) store(ctx context.Context) error {
	f := m.files
	if f == nil || f.Durable() == nil || f.before == nil {
		return nil
	}
	err := m.fetch(ctx)
	if err != nil {
		return api.Errorf(api.KindOf(err), "the changes in workspace %s since the start of sandbox %s are lost: %w", f.Durable().ID(), m.r.Spec.ID, err).
			WithHint("%s", api.HintOf(err))
	}
	return nil
}

func (m *machine) fetch(ctx context.Context) error {
	// A file that is written while it is packed would be neither its old nor its new content.
	running, err := m.guest.List(ctx)
	if err != nil {
		return err
	}
	for _, p := range running {
		// One that has ended is not found.
		_ = m.guest.SendSignal(ctx, envd.Selector{PID: &p.PID}, sigKill)
	}
	after, err := m.list(ctx)
	if err != nil {
		return err
	}
	f := m.files
	remaining := make(map[string]workspace.Remaining, len(after))
	var changed bytes.Buffer
	for p, s := range after {
		e := workspace.Remaining{Kind: s.Kind, Same: f.before[p] == s}
		remaining[p] = e
		if !e.Same && s.Kind != workspace.Directory {
			changed.WriteString(p)
			changed.WriteByte(0)
		}
	}
	names, archive := m.scratch("changed"), m.scratch("changed.tar")
	if err := m.guest.WriteFile(ctx, "", names, &changed); err != nil {
		return err
	}
	err = m.run(ctx, `tar --null --no-recursion --hard-dereference --format=posix -C `+mountPoint+` -cf "$1" --verbatim-files-from -T "$0"`, names, archive)
	if err != nil {
		return err
	}
	r, _, err := m.guest.ReadFile(ctx, "", archive)
	if err != nil {
		return err
	}
	defer r.Close()
	most := cmp.Or(f.Durable().Quota(), m.r.Spec.Limits.DiskBytes, copied.MaxStored)
	// The archive has a head of some blocks for each file.
	limited := io.LimitReader(r, most+int64(len(remaining)+1)*8<<10)
	return f.Durable().Replace(ctx, remaining, tar.NewReader(limited), most)
}

// list lists the files of the workspace.
func (m *machine) list(ctx context.Context) (map[string]stamp, error) {
	name := m.scratch("list")
	// What its owner may not read is made readable first.
	if err := m.run(ctx, `find `+mountPoint+` -mindepth 1 '(' -type d ! -perm -700 -exec chmod u+rwx {} ';' ')' -o '(' -type f ! -perm -400 -exec chmod u+r {} + ')'
find `+mountPoint+` -mindepth 1 -printf '%y %i %C@ %P\0' > "$0"`, name); err != nil {
		return nil, err
	}
	r, size, err := m.guest.ReadFile(ctx, "", name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if size > maxList {
		return nil, api.Errorf(api.KindExhausted, "the list of files in the workspace has %d bytes; the maximum is %d", size, maxList)
	}
	text, err := io.ReadAll(io.LimitReader(r, maxList+1))
	if err == nil && len(text) > maxList {
		err = api.Errorf(api.KindExhausted, "the list of files in the workspace has more than %d bytes", maxList)
	}
	if err != nil {
		return nil, err
	}
	return parseList(string(text))
}

// parseList reads what list's command writes. Sockets, fifos and devices are left out.
func parseList(text string) (map[string]stamp, error) {
	kinds := map[string]workspace.Mode{"f": workspace.Regular, "d": workspace.Directory, "l": workspace.Symlink}
	out := map[string]stamp{}
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\x00"), "\x00") {
		if line == "" {
			continue
		}
		fields := strings.SplitN(line, " ", 4)
		if len(fields) != 4 || fields[3] == "" {
			return nil, api.Errorf(api.KindUnavailable, "the list of files in the workspace has the malformed line %.200q", line)
		}
		if kind, ok := kinds[fields[0]]; ok {
			out[fields[3]] = stamp{Kind: kind, Text: fields[1] + " " + fields[2]}
		}
	}
	return out, nil
}

// scratch is the path of a file in the box that is not the sandbox's.
func (m *machine) scratch(name string) string {
	return "/tmp/.hortus-" + string(m.r.Spec.ID) + "/" + name
}

// run runs a shell script in the box, with arguments from $0.
func (m *machine) run(ctx context.Context, script string, args ...string) error {
	no, dir := false, "/"
	ps, err := m.guest.Start(ctx, &envd.StartRequest{Stdin: &no, Process: &envd.ProcessConfig{
		Cmd: "/bin/sh", Args: append([]string{"-c", "LC_ALL=C; export LC_ALL; " + script}, args...), Cwd: &dir,
	}}, envd.StartOptions{OutputLimit: 64 << 10})
	if err != nil {
		return err
	}
	defer ps.Close()
	var errs []byte
	for {
		ev, err := ps.Next()
		switch {
		case err != nil:
			return envd.APIError(err)
		case ev.Data != nil:
			errs = append(errs, ev.Data.Stderr[:min(len(ev.Data.Stderr), 500-len(errs))]...)
		case ev.End != nil && ev.End.ExitCode != 0:
			return api.Errorf(api.KindUnavailable, "a command in the sandbox failed with exit code %d: %q", ev.End.ExitCode, errs)
		case ev.End != nil:
			return nil
		}
	}
}

// writeBefore stores the list of files at the start; readBefore reads it.
func (f *files) writeBefore(dir string) error {
	text, err := json.Marshal(f.before)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, beforeName), text, 0o600)
	}
	return err
}

func (f *files) readBefore(dir string) error {
	if f == nil || f.Durable() == nil {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(dir, beforeName))
	if err == nil {
		err = json.Unmarshal(text, &f.before)
	}
	return err
}

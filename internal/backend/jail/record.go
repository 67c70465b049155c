package jail

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
)

const (
	// recordName is the file in a run directory by which another daemon takes the
	// machine over.
	recordName = "machine"
	// recordHead begins it: what it is, and its version. The digest of the rest
	// follows on the same line.
	recordHead = "hortus machine 1 sha256:"
	// maxRecord bounds it, in bytes.
	maxRecord = 64 << 10
)

// record is what must be known of a machine to take it over. The run directory is
// the daemon's alone; all the same nothing in it is believed that can be checked.
type record struct {
	ID      api.SandboxID `json:"id"`
	Backend string        `json:"backend"`
	// PID, Start and Boot name the first process: its number, when it started, and
	// in which run of the host's kernel.
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	Boot  string `json:"boot"`
	// Range is the number of its range of ids; -1 where it has a single one.
	Range int `json:"range"`
	// Groups says where its control groups are.
	Groups cgroup.Where `json:"groups"`
	// Disk finds the directory of its disk again.
	Disk diskMark `json:"disk"`
	// What it was started with, but for its environment.
	Layers    []layer.Digest     `json:"layers"`
	Limits    api.Limits         `json:"limits"`
	Asked     sandbox.Asked      `json:"asked"`
	Hostname  string             `json:"hostname"`
	Workspace *sandbox.Workspace `json:"workspace,omitempty"`
	// Image is the mark of what it saves; empty without a kernel of its own. Tools
	// names the directory of the programs that it runs on.
	Image api.ImageMark `json:"image,omitzero"`
	Tools string        `json:"tools,omitempty"`
}

// diskMark names the root directory of a disk.
type diskMark struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
	// Handle is the kernel's own name for it, of that type; empty where it has none.
	Type   int32  `json:"type,omitempty"`
	Handle []byte `json:"handle,omitempty"`
}

// process is the first process.
func (r *record) process() procID { return procID{r.PID, r.Start} }

// spec is what the machine was started with.
func (r *record) spec() sandbox.Spec {
	return sandbox.Spec{ID: r.ID, Layers: r.Layers, Limits: r.Limits, Asked: r.Asked, Hostname: r.Hostname, Workspace: r.Workspace}
}

// newRecord describes a machine that is born.
func (m *machine) newRecord(spec sandbox.Spec) (*record, error) {
	id, err := processID(m.proc.Pid)
	if err != nil {
		return nil, err
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	r := &record{
		ID: m.id, Backend: m.b.cfg.Name, PID: id.pid, Start: id.start, Boot: boot, Range: -1, Groups: m.group.Where(),
		Layers: spec.Layers, Limits: spec.Limits, Asked: spec.Asked, Hostname: spec.Hostname, Workspace: spec.Workspace,
		Image: m.image,
	}
	if m.lease != nil {
		r.Range = m.lease.n
	}
	if k := m.b.cfg.Kernel; k != nil {
		r.Tools = filepath.Base(k.Tools())
	}
	if r.Disk, err = markDisk(m.disk); err != nil {
		return nil, fmt.Errorf("the disk: %w", err)
	}
	return r, nil
}

func markDisk(fd int) (d diskMark, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return d, err
	}
	d.Dev, d.Ino = uint64(st.Dev), st.Ino
	h, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return d, nil // it is found for its size alone then
	}
	d.Type, d.Handle = h.Type(), h.Bytes()
	return d, nil
}

// write puts the record into a run directory, whole or not at all. It is not
// flushed: what it speaks of does not survive what would lose it.
func (r *record) write(dir string) error {
	b, err := encodeRecord(r)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, recordName+".new")
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, recordName))
}

func encodeRecord(r *record) ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	b := append([]byte(recordHead+hex.EncodeToString(sum[:])+"\n"), body...)
	if len(b) > maxRecord {
		return nil, fmt.Errorf("a record of %d bytes is longer than %d", len(b), maxRecord)
	}
	return b, nil
}

// readRecord reads the record of a sandbox. An error is fs.ErrNotExist where there
// is none.
func readRecord(dir string, id api.SandboxID) (*record, error) {
	fd, err := unix.Open(filepath.Join(dir, recordName), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: recordName, Err: err}
	}
	f := os.NewFile(uintptr(fd), recordName)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return nil, errors.New("the record is no file of this daemon's alone")
	}
	b, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err != nil {
		return nil, err
	}
	r, err := parseRecord(b)
	if err == nil && r.ID != id {
		err = fmt.Errorf("the record is of sandbox %s", r.ID)
	}
	return r, err
}

// parseRecord reads a record, which is whole and makes sense or is refused.
func parseRecord(b []byte) (*record, error) {
	if len(b) > maxRecord {
		return nil, fmt.Errorf("the record is longer than %d bytes", maxRecord)
	}
	line, body, ok := bytes.Cut(b, []byte("\n"))
	sum, known := strings.CutPrefix(string(line), recordHead)
	if !ok || !known {
		return nil, errors.New("the record is cut short, or of a version that this build does not know")
	}
	if have := sha256.Sum256(body); hex.EncodeToString(have[:]) != sum {
		return nil, errors.New("the record is damaged")
	}
	r := new(record)
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("the record is malformed: %w", err)
	}
	if d.More() {
		return nil, errors.New("the record is malformed: more follows it")
	}
	return r, r.check()
}

func (r *record) check() error {
	bad := func(what string) error { return fmt.Errorf("the record is malformed: %s", what) }
	switch {
	case !r.ID.Valid():
		return bad("its id")
	case r.PID <= 1 || r.PID > math.MaxInt32 || r.Start == 0:
		return bad("its process")
	case len(r.Boot) != 36:
		return bad("the run of the kernel")
	case r.Range < -1 || r.Range >= rangeCount:
		return bad("its range of ids")
	case len(r.Hostname) == 0 || len(r.Hostname) > 63:
		return bad("its host name")
	case len(r.Disk.Handle) > 128:
		return bad("its disk")
	case r.Tools != "" && (filepath.Base(r.Tools) != r.Tools || r.Tools == "." || r.Tools == ".."):
		return bad("its programs")
	}
	all := r.Layers
	if w := r.Workspace; w != nil {
		if len(w.Layers) == 0 || len(w.Layers) > workspace.MaxLayers || w.Upper != "" && !w.Upper.Valid() {
			return bad("its workspace")
		}
		all = append(append([]layer.Digest{}, all...), w.Layers...)
	}
	for _, d := range all {
		if !d.Valid() {
			return bad("a layer")
		}
	}
	return nil
}

// bootID names this run of the host's kernel.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// ToolsInUse names the directories of programs, as Kernel.Tools ends, on which
// sandboxes of a run directory run. It counts every record that can be read.
func ToolsInUse(dir string) (map[string]bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, e := range entries {
		id := api.SandboxID(e.Name())
		if !id.Valid() {
			continue
		}
		if r, err := readRecord(filepath.Join(dir, e.Name()), id); err == nil && r.Tools != "" {
			used[r.Tools] = true
		}
	}
	return used, nil
}

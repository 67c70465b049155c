package rundir

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
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/ids"
	"hortus.dev/internal/platform/proc"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
)

const (
	// name is the name of the file in the run directory.
	name = "machine"
	// head is the start of the file: its type and version. The digest of the rest
	// follows on the same line.
	head = "hortus machine 1 sha256:"
	// maxSize is the maximum size of the file, in bytes.
	maxSize = 64 << 10
)

// Record is what another daemon must know about a machine to adopt it. Only the daemon can
// write to the run directory; all the same, everything that can be checked is checked.
type Record struct {
	ID      api.SandboxID `json:"id"`
	Backend string        `json:"backend"`
	// PID, Start and Boot identify the first process: its pid, its start time in clock
	// ticks since boot, and the boot of the host.
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	Boot  string `json:"boot"`
	// Range is the number of its range of ids; -1 if it has a single id.
	Range int `json:"range"`
	// Groups locates its control groups.
	Groups cgroup.Where `json:"groups"`
	Disk   Disk         `json:"disk"`
	// What it was started with, except its environment.
	Layers    []layer.Digest     `json:"layers"`
	Limits    api.Limits         `json:"limits"`
	Asked     sandbox.Asked      `json:"asked"`
	Hostname  string             `json:"hostname"`
	Workspace *sandbox.Workspace `json:"workspace,omitempty"`
	// ForkLayers is the number of layers above Layers, which a fork made.
	ForkLayers int `json:"forkLayers,omitempty"`
	// Image is the mark of the memory images that it saves, and Tools the directory of
	// its kernel's programs; both are empty without a kernel of its own.
	Image api.ImageMark `json:"image,omitzero"`
	Tools string        `json:"tools,omitempty"`
}

// Process identifies the first process.
func (r *Record) Process() proc.ID { return proc.ID{PID: r.PID, Start: r.Start} }

// Spec is what the machine was started with.
func (r *Record) Spec() sandbox.Spec {
	return sandbox.Spec{ID: r.ID, Layers: r.Layers, Limits: r.Limits, Asked: r.Asked, Hostname: r.Hostname, Workspace: r.Workspace}
}

// Write writes the record into a run directory, atomically. It does not flush it to disk:
// after a crash of the host the machine has ended too.
func (r *Record) Write(dir string) error {
	b, err := encode(r)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, name+".new")
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, name))
}

func encode(r *Record) ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	b := append([]byte(head+hex.EncodeToString(sum[:])+"\n"), body...)
	if len(b) > maxSize {
		return nil, fmt.Errorf("a record of %d bytes is longer than %d", len(b), maxSize)
	}
	return b, nil
}

// Read reads the record of a sandbox. It returns fs.ErrNotExist if there is none.
func Read(dir string, id api.SandboxID) (*Record, error) {
	fd, err := unix.Open(filepath.Join(dir, name), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return nil, errors.New("the record is not a regular file that only this daemon can access")
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, err
	}
	r, err := parse(b)
	if err == nil && r.ID != id {
		err = fmt.Errorf("the record belongs to sandbox %s", r.ID)
	}
	return r, err
}

// parse decodes a record. It refuses a truncated, damaged or invalid one.
func parse(b []byte) (*Record, error) {
	if len(b) > maxSize {
		return nil, fmt.Errorf("the record is longer than %d bytes", maxSize)
	}
	line, body, ok := bytes.Cut(b, []byte("\n"))
	sum, known := strings.CutPrefix(string(line), head)
	if !ok || !known {
		return nil, errors.New("the record is truncated or has an unsupported version")
	}
	if have := sha256.Sum256(body); hex.EncodeToString(have[:]) != sum {
		return nil, errors.New("the record is damaged")
	}
	r := new(Record)
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("the record is malformed: %w", err)
	}
	if d.More() {
		return nil, errors.New("the record is malformed: data follows it")
	}
	return r, r.check()
}

func (r *Record) check() error {
	bad := func(what string) error { return fmt.Errorf("the record is malformed: %s", what) }
	switch {
	case !r.ID.Valid():
		return bad("its id")
	case r.PID <= 1 || r.PID > math.MaxInt32 || r.Start == 0:
		return bad("its process")
	case len(r.Boot) != 36:
		return bad("its boot id")
	case r.Range < -1 || r.Range >= ids.Count:
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
		if len(w.Layers) == 0 || len(w.Layers) > workspace.MaxLayers || w.Upper != "" && !w.Upper.Valid() || w.CheckAccess() != nil {
			return bad("its workspace")
		}
		all = slices.Concat(all, w.Layers)
	}
	for _, d := range all {
		if !d.Valid() {
			return bad("a layer")
		}
	}
	return nil
}

// ToolsInUse lists the Tools of all readable records below a directory of run directories.
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
		if r, err := Read(filepath.Join(dir, e.Name()), id); err == nil && r.Tools != "" {
			used[r.Tools] = true
		}
	}
	return used, nil
}

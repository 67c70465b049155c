package rundir

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/ids"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
)

func someRecord() *Record {
	return &Record{
		ID: api.NewSandboxID(), Backend: "container", PID: 4242, Start: 77, Boot: strings.Repeat("b", 36), Range: 3, Hostname: "sandbox",
		Groups: cgroup.Where{Parents: []string{"/sys/fs/cgroup/x"}, Unified: "/sys/fs/cgroup/x", Controllers: map[cgroup.Controller]string{cgroup.Memory: "/sys/fs/cgroup/x"}},
		Disk:   Disk{Dev: 5, Ino: 1, Type: 1, Handle: []byte{1, 2, 3}}, Limits: api.DefaultLimits(), Asked: sandbox.Asked{Memory: true},
		Layers: []layer.Digest{layer.Digest("host-" + strings.Repeat("0", 64))},
	}
}

func TestRecord(t *testing.T) {
	dir := t.TempDir()
	r := someRecord()
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir, r.ID)
	if err != nil || !reflect.DeepEqual(got, r) {
		t.Fatalf("read %+v, %v; wrote %+v", got, err, r)
	}
	if _, err := Read(dir, api.NewSandboxID()); err == nil {
		t.Error("another sandbox's record was taken")
	}
	path := filepath.Join(dir, name)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// However it was cut short or changed, it is no record any more.
	for n := range whole {
		if _, err := parse(whole[:n]); err == nil {
			t.Fatalf("%d of %d bytes were taken for the whole", n, len(whole))
		}
		other := bytes.Clone(whole)
		other[n] ^= 1
		if _, err := parse(other); err == nil {
			t.Fatalf("a change of byte %d was not seen", n)
		}
	}
	for what, change := range map[string]func(*Record){
		"init":       func(r *Record) { r.PID = 1 },
		"no start":   func(r *Record) { r.Start = 0 },
		"no boot":    func(r *Record) { r.Boot = "" },
		"range":      func(r *Record) { r.Range = ids.Count },
		"layer":      func(r *Record) { r.Layers = []layer.Digest{"../../etc"} },
		"workspace":  func(r *Record) { r.Workspace = &sandbox.Workspace{Layers: r.Layers, Upper: "../x"} },
		"programs":   func(r *Record) { r.Tools = "../bin" },
		"no sandbox": func(r *Record) { r.ID = "../x" },
	} {
		bad := someRecord()
		change(bad)
		b, err := encode(bad)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse(b); err == nil {
			t.Errorf("%s: it was taken", what)
		}
	}
	// A file that others could have written is not read.
	if err := os.Chmod(path, 0o620); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir, r.ID); err == nil {
		t.Error("a record that others can write was taken")
	}
	if err := os.Rename(path, path+".x"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path+".x", path); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir, r.ID); err == nil {
		t.Error("a link was followed")
	}
}

func FuzzParse(f *testing.F) {
	b, err := encode(someRecord())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(head))
	f.Add([]byte(head + "\n{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parse(b)
		if err == nil && (r.PID <= 1 || !r.ID.Valid() || r.check() != nil) {
			t.Errorf("taken: %+v", r)
		}
	})
}

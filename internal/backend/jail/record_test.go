package jail

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
)

func someRecord() *record {
	return &record{
		ID: api.NewSandboxID(), Backend: "container", PID: 4242, Start: 77, Boot: strings.Repeat("b", 36), Range: 3, Hostname: "sandbox",
		Groups: cgroup.Where{Parents: []string{"/sys/fs/cgroup/x"}, Unified: "/sys/fs/cgroup/x", Controllers: map[cgroup.Controller]string{cgroup.Memory: "/sys/fs/cgroup/x"}},
		Disk:   diskMark{Dev: 5, Ino: 1, Type: 1, Handle: []byte{1, 2, 3}}, Limits: api.DefaultLimits(), Asked: sandbox.Asked{Memory: true},
		Layers: []layer.Digest{layer.Digest("host-" + strings.Repeat("0", 64))},
	}
}

func TestRecord(t *testing.T) {
	dir := t.TempDir()
	r := someRecord()
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := readRecord(dir, r.ID)
	if err != nil || !reflect.DeepEqual(got, r) {
		t.Fatalf("read %+v, %v; wrote %+v", got, err, r)
	}
	if _, err := readRecord(dir, api.NewSandboxID()); err == nil {
		t.Error("another sandbox's record was taken")
	}
	path := filepath.Join(dir, recordName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// However it was cut short or changed, it is no record any more.
	for n := range whole {
		if _, err := parseRecord(whole[:n]); err == nil {
			t.Fatalf("%d of %d bytes were taken for the whole", n, len(whole))
		}
		other := bytes.Clone(whole)
		other[n] ^= 1
		if _, err := parseRecord(other); err == nil {
			t.Fatalf("a change of byte %d was not seen", n)
		}
	}
	for name, change := range map[string]func(*record){
		"init":       func(r *record) { r.PID = 1 },
		"no start":   func(r *record) { r.Start = 0 },
		"no boot":    func(r *record) { r.Boot = "" },
		"range":      func(r *record) { r.Range = rangeCount },
		"layer":      func(r *record) { r.Layers = []layer.Digest{"../../etc"} },
		"workspace":  func(r *record) { r.Workspace = &sandbox.Workspace{Layers: r.Layers, Upper: "../x"} },
		"programs":   func(r *record) { r.Tools = "../bin" },
		"no sandbox": func(r *record) { r.ID = "../x" },
	} {
		bad := someRecord()
		change(bad)
		b, err := encodeRecord(bad)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseRecord(b); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
	// A file that others could have written is not read.
	if err := os.Chmod(path, 0o620); err != nil {
		t.Fatal(err)
	}
	if _, err := readRecord(dir, r.ID); err == nil {
		t.Error("a record that others can write was taken")
	}
	if err := os.Rename(path, path+".x"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path+".x", path); err != nil {
		t.Fatal(err)
	}
	if _, err := readRecord(dir, r.ID); err == nil {
		t.Error("a link was followed")
	}
}

func FuzzParseRecord(f *testing.F) {
	b, err := encodeRecord(someRecord())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(recordHead))
	f.Add([]byte(recordHead + "\n{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRecord(b)
		if err == nil && (r.PID <= 1 || !r.ID.Valid() || r.check() != nil) {
			t.Errorf("taken: %+v", r)
		}
	})
}

// FuzzGroupsAt: a record's places are looked at, not believed.
func FuzzGroupsAt(f *testing.F) {
	f.Add("/sys/fs/cgroup", "/sys/fs/cgroup", "memory", "/sys/fs/cgroup")
	f.Add("/etc", "", "memory", "/etc")
	f.Add("../x", "", "", "")
	f.Fuzz(func(t *testing.T, parent, unified, controller, place string) {
		w := cgroup.Where{Parents: []string{parent}, Unified: unified, Controllers: map[cgroup.Controller]string{cgroup.Controller(controller): place}}
		if _, err := cgroup.At("id", w); err == nil && !strings.HasPrefix(parent, "/sys/fs/cgroup") && !strings.Contains(parent, "cgroup") {
			t.Errorf("%q was taken for a place of control groups", parent)
		}
	})
}

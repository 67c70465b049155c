package image

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"hortus.dev/api"
)

const (
	useFile = "00000000000000aa"
	useHeld = "00000000000000bb"
)

// usedMemory is a sandbox with a base of 8192 bytes on the disk, and one in the memory of another.
func usedMemory(t testing.TB, holder api.SandboxID) Memory {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, BaseFile(useFile)), make([]byte, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, holderFile(useHeld)), []byte(holder), 0o600); err != nil {
		t.Fatal(err)
	}
	return Memory{Bases: dir}
}

func TestUse(t *testing.T) {
	holder := api.NewSandboxID()
	m := usedMemory(t, holder)
	file := func(n int64) api.SharedMemory {
		return api.SharedMemory{Name: useFile, Bytes: n, TotalBytes: 8192, File: true}
	}
	held := func(n, of int64) api.SharedMemory {
		return api.SharedMemory{Name: useHeld, Bytes: n, TotalBytes: of, Holder: holder}
	}
	for _, c := range []struct {
		name, said string
		want       []api.SharedMemory // nil if it is refused
	}{
		{"none", `null`, []api.SharedMemory{}},
		{"both", `[{"Name":"` + useFile + `","Bytes":4096,"Allocated":8192},{"Name":"` + useHeld + `","Bytes":5,"Allocated":10}]`, []api.SharedMemory{file(4096), held(5, 10)}},
		{"nothing of one", `[{"Name":"` + useFile + `","Bytes":0}]`, []api.SharedMemory{}},
		{"more than the file has", `[{"Name":"` + useFile + `","Bytes":18446744073709551615,"Allocated":1}]`, []api.SharedMemory{file(8192)}},
		{"more than memory has", `[{"Name":"` + useHeld + `","Bytes":18446744073709551615,"Allocated":18446744073709551615}]`, []api.SharedMemory{held(maxBaseBytes, maxBaseBytes)}},
		{"one twice", `[{"Name":"` + useFile + `","Bytes":1},{"Name":"` + useFile + `","Bytes":1}]`, nil},
		{"one that it does not have", `[{"Name":"00000000000000cc","Bytes":1}]`, nil},
		{"a path", `[{"Name":"../../etc/passwd","Bytes":1}]`, nil},
		{"a negative number", `[{"Name":"` + useFile + `","Bytes":-1}]`, nil},
		{"no list", `{}`, nil},
		{"nothing", ``, nil},
	} {
		got, err := m.decodeUse([]byte(c.said))
		if (err != nil) != (c.want == nil) || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
}

func FuzzUse(f *testing.F) {
	m := usedMemory(f, api.NewSandboxID())
	f.Add([]byte(`[{"Name":"` + useFile + `","Bytes":4096,"Allocated":8192},{"Name":"` + useHeld + `","Bytes":5,"Allocated":10}]`))
	f.Add([]byte(`[{}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		use, err := m.decodeUse(b)
		if err != nil && use != nil {
			t.Errorf("%v and %v", use, err)
		}
		if len(use) > 2 {
			t.Errorf("%d bases", len(use))
		}
		for _, u := range use {
			if u.Bytes <= 0 || u.Bytes > u.TotalBytes || u.TotalBytes > maxBaseBytes {
				t.Errorf("%+v", u)
			}
		}
	})
}

func TestHasBases(t *testing.T) {
	dir := t.TempDir()
	if HasBases(dir) || HasBases(filepath.Join(dir, "none")) {
		t.Error("an empty directory has bases")
	}
	if err := NoteFrozen(dir, useFile); err != nil {
		t.Fatal(err)
	}
	if HasBases(dir) {
		t.Error("one that holds memory for others refers to bases")
	}
	if !HasBases(usedMemory(t, api.NewSandboxID()).Bases) {
		t.Error("one that refers to bases has none")
	}
}

package wasm_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/patience"
)

// TestFilesOfTheHost reads and writes files of the host by every path that a module can say. The
// control reads a file of the sandbox by the same ways.
func TestFilesOfTheHost(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("of the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := start(t, nil)
	up := strings.Repeat("../", 40)
	ways := func(path string) string {
		// QuickJS makes no links on WASI.
		for name, target := range map[string]string{"abs": path, "rel": up + path[1:], "top": "/"} {
			if err := b.guest.Upload(t.Context(), "", "/workspace/"+name, envd.Upload{Link: target}, strings.NewReader("")); err != nil {
				t.Fatal(err)
			}
		}
		return fmt.Sprintf(`const p = %q, up = %q;
for (const w of [p, up + p.slice(1), "/workspace/" + up + p.slice(1), "/tmp/./../.." + p, "/workspace/abs", "/workspace/rel", "/workspace/top" + p, "//" + p, "/proc/self/root" + p, "/proc/self/cwd" + p]) {
  const s = std.loadFile(w); if (s !== null) print(w + ": " + s);
}`, path, up)
	}
	b.js(0, "", ways(secret))
	b.write("/tmp/secret", "of the sandbox") // the control
	if r := b.try2(ways("/tmp/secret")); strings.Count(r.out, "of the sandbox") < 5 {
		t.Errorf("the control: %q", r.out)
	}
	for _, script := range []string{
		fmt.Sprintf(`const f = std.open(%q, "w"); if (f) { f.puts("evil"); f.close(); }`, secret),
		fmt.Sprintf(`os.remove(%q); os.rename("/tmp/secret", %q)`, secret, secret),
	} {
		b.js(0, "", script)
	}
	if got, err := os.ReadFile(secret); err != nil || string(got) != "of the host" {
		t.Errorf("the host's file is %q, %v", got, err)
	}
	b.js(0, "", `for (const d of ["/etc", "/proc", "/dev", "/sys", "/root", "/usr"]) { const [l, e] = os.readdir(d); if (!e) print(d, l); }`)
	if _, _, err := b.guest.ReadFile(t.Context(), "", secret); err == nil {
		t.Error("the guest serves a file of the host")
	}
}

// TestOtherSandboxes sees nothing of a neighbour.
func TestOtherSandboxes(t *testing.T) {
	a, b := start(t, nil), start(t, nil)
	a.js(0, "", `const f = std.open("/tmp/mine", "w"); f.puts("secret"); f.close()`)
	a.js(0, "secret\n", `print(std.loadFile("/tmp/mine"))`)
	b.js(0, "null\n", `print(std.loadFile("/tmp/mine"))`)
}

// TestMemoryBomb ends at the limit. The control has the same code and less memory to fill.
func TestMemoryBomb(t *testing.T) {
	b := start(t, func(s *sandbox.Spec) { s.Limits.MemoryBytes, s.Asked.Memory = 128<<20, true })
	fill := func(mb int) string {
		return fmt.Sprintf(`const all = []; for (let i = 0; i < %d; i++) all.push(new Uint8Array(1 << 20).fill(1)); print("kept", all.length)`, mb)
	}
	b.js(0, "kept 60\n", fill(60))
	if r, err := b.try(envd.StartOptions{}, "qjs", "-e", fill(400)); err != nil || r.end.ExitCode == 0 || strings.Contains(r.out, "kept") {
		t.Errorf("400 MB under a limit of 128 MB: %+v, %v", r, err)
	}
	st, err := b.machine.Stats(t.Context())
	if err != nil || st.MemoryBytes > 512<<20 {
		t.Errorf("the processes use %d MB, %v", st.MemoryBytes>>20, err)
	}
	// What a command had is free again.
	b.js(0, "kept 60\n", fill(60))
	// Several commands share the limit. Each that has its memory keeps it until all have it, or have failed.
	const all = 4
	var failed atomic.Int32
	var ended sync.WaitGroup
	for i := range all {
		ended.Go(func() {
			r, err := b.try(envd.StartOptions{}, "qjs", "--std", "-e", fill(60)+fmt.Sprintf(`; std.open("/tmp/has-%d", "w").close(); while (std.loadFile("/tmp/go") === null) os.sleep(20)`, i))
			if err != nil || r.end.ExitCode != 0 {
				failed.Add(1)
			}
		})
	}
	have := func() (n int) {
		for i := range all {
			if f, _, err := b.guest.ReadFile(t.Context(), "", fmt.Sprintf("/tmp/has-%d", i)); err == nil {
				f.Close()
				n++
			}
		}
		return n
	}
	deadline := time.NewTimer(patience.Of(60 * time.Second))
	defer deadline.Stop()
	for have()+int(failed.Load()) < all {
		select {
		case <-deadline.C:
			t.Fatalf("%d commands have their memory, and %d have failed", have(), failed.Load())
		case <-time.After(10 * time.Millisecond):
		}
	}
	if n := have(); n > 2 {
		t.Errorf("%d commands had 60 MB each under a limit of 128 MB", n)
	}
	b.write("/tmp/go", "")
	ended.Wait()
}

// TestDiskBomb ends at the limit, for content and for entries.
func TestDiskBomb(t *testing.T) {
	b := start(t, func(s *sandbox.Spec) { s.Limits.DiskBytes, s.Asked.Disk = 4<<20, true })
	const write = `const f = std.open("/tmp/big", "w"); const c = "x".repeat(1 << 16); let n = 0; for (; n < %d; n++) { f.puts(c); f.flush(); if (f.error()) break; } print(n); f.close(); os.remove("/tmp/big")`
	b.js(0, "32\n", fmt.Sprintf(write, 32)) // the control
	if r := b.try2(fmt.Sprintf(write, 1000)); r.out == "" || r.out == "1000\n" {
		t.Errorf("64 MB under a limit of 4 MB: %+v", r)
	}
	if r := b.try2(`let n = 0; for (; n < 100000; n++) { const f = std.open("/tmp/" + n, "w"); if (!f) break; f.close(); } print(n)`); r.out == "" || r.out == "100000\n" {
		t.Errorf("100,000 files under a limit of 4 MB: %+v", r)
	}
	b.js(0, "cannot\n", `const f = std.open("/tmp/sparse", "w"); print(f ? "can" : "cannot")`)
}

// try2 runs a script and returns what it did.
func (b *box) try2(script string) result {
	b.t.Helper()
	r, err := b.try(envd.StartOptions{}, "qjs", "--std", "-e", script)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// section encodes a section of a module, or a body in a code section.
func section(id byte, content ...byte) []byte {
	return append(append([]byte{id}, binary.AppendUvarint(nil, uint64(len(content)))...), content...)
}

// module encodes a module whose function _start, without arguments, has a body.
func module(memory []byte, body ...byte) string {
	out := []byte("\x00asm\x01\x00\x00\x00")
	out = append(out, section(1, 1, 0x60, 0, 0)...)
	out = append(out, section(3, 1, 0)...)
	out = append(out, memory...)
	out = append(out, section(7, append([]byte{1, 6}, "_start\x00\x00"...)...)...)
	code := append([]byte{0}, append(body, 0x0b)...)
	return string(append(out, section(10, append(append([]byte{1}, binary.AppendUvarint(nil, uint64(len(code)))...), code...)...)...))
}

// TestModules runs hostile modules. The sandbox survives each of them.
func TestModules(t *testing.T) {
	b := start(t, func(s *sandbox.Spec) { s.Limits.MemoryBytes, s.Asked.Memory = 128<<20, true })
	deep := []byte{}
	for range 100_000 {
		deep = append(deep, 0x02, 0x40) // block
	}
	valid := module(nil)
	for _, c := range []struct {
		name, module string
		code         int32
		says         string
	}{
		{"does nothing, the control", valid, 0, ""},
		{"traps", module(nil, 0x00), 134, "unreachable"},
		{"is cut", valid[:len(valid)-2], 126, "not a valid module"},
		{"is only a head", valid[:8], 126, "not a command"},
		{"has a section that is too long", valid[:8] + "\x01\xff\xff\xff\xff\x0f", 126, "not a valid module"},
		{"has blocks without an end", module(nil, deep...), 126, "not a valid module"},
		{"recurses without an end", module(nil, 0x10, 0x00), 134, "stack overflow"},
		{"has 4 GB of memory", module(section(5, 1, 0, 0x80, 0x80, 0x04)), 126, "more memory"},
		{"imports what does not exist", valid[:8] + string(section(1, 1, 0x60, 0, 0)) + string(section(2, append([]byte{1, 3}, "env\x04evil\x00\x00"...)...)), 126, "imports"},
	} {
		b.write("m.wasm", c.module)
		r, err := b.try(envd.StartOptions{Timeout: patience.Of(60 * time.Second)}, "./m.wasm")
		if err != nil || r.end.ExitCode != c.code || !strings.Contains(r.err, c.says) {
			t.Errorf("a module that %s: %+v, %v; want exit %d and %q", c.name, r, err, c.code, c.says)
		}
	}
	// One that computes without an end is killed at its timeout.
	b.write("m.wasm", module(nil, 0x03, 0x40, 0x0c, 0x00, 0x0b))
	if r, err := b.try(envd.StartOptions{Timeout: patience.Of(300 * time.Millisecond)}, "./m.wasm"); err != nil || r.end.Cause != api.CauseTimeout {
		t.Errorf("an endless loop: %+v, %v", r, err)
	}
	for name, content := range map[string]string{"script": "#!/bin/sh\necho evil\n", "component": "\x00asm\x0d\x00\x01\x00"} {
		b.write(name, content)
		if _, err := b.try(envd.StartOptions{}, "./"+name); err == nil {
			t.Errorf("a %s ran", name)
		}
	}
	b.js(0, "alive\n", `print("alive")`)
}

// TestHugeModule is refused before it is compiled.
func TestHugeModule(t *testing.T) {
	b := start(t, nil)
	b.write("m.wasm", module(nil)+string(make([]byte, 65<<20)))
	if r, err := b.try(envd.StartOptions{}, "./m.wasm"); err != nil || r.end.ExitCode != 126 || !strings.Contains(r.err, "maximum of a module") {
		t.Errorf("%+v, %v", r, err)
	}
}

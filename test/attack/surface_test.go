package attack

import (
	"os"
	"slices"
	"strings"
	"testing"

	"hortus.dev/test/tier"
)

// surfaceTable reads the second table of the kernel's surface in the
// documentation: the names in each row's second column.
func surfaceTable(t *testing.T) map[string][]string {
	t.Helper()
	b, err := os.ReadFile("../../docs/security-claims.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), "<!-- surface of the rest -->\n")
	table, _, end := strings.Cut(rest, "<!-- end -->")
	if !ok || !end {
		t.Fatal("docs/security-claims.md has no table of the surface")
	}
	rows := map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 {
			t.Fatalf("a row without three cells: %s", line)
		}
		var names []string
		for i, part := range strings.Split(cells[2], "`") {
			if i%2 == 1 {
				names = append(names, part)
			}
		}
		rows[strings.TrimSpace(cells[1])] = names
	}
	return rows
}

// TestSurface compares what a program inside finds with what the documentation
// says is left.
func TestSurface(t *testing.T) {
	tier.AnyUser(t)
	rows := surfaceTable(t)
	row := func(kind string) []string {
		t.Helper()
		names, ok := rows[kind]
		if !ok {
			t.Fatalf("the table has no row %q", kind)
		}
		return names
	}
	lists := map[string][]string{
		"socket": row("socket families"), "protocol": row("protocols of inet and inet6"), "device": row("devices"), "own": row("a process's own files of /proc, to write"),
		"machine": row("files of /proc about the machine, to write"), "tells": row("files of /proc about the machine, to read"),
		"sys": row("/sys, control groups, debug and security file systems"),
	}
	toWrite, toRead, hidden := row("file systems, to write"), row("file systems, to read"), row("hidden in /proc")
	w := newWorld(t)
	sandbox := w.create(t, nil)
	prog := w.program(t, sandbox.ID)
	for _, user := range sandbox.Identities {
		r := w.exec(t, sandbox.ID, user, prog, roleProbe, "surface")
		found := map[string]bool{}
		for line := range strings.Lines(r.stdout) {
			kind, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			if kind == "mount" {
				mountOnSurface(t, user, name, toWrite, toRead, slices.Concat(lists["device"], hidden))
				continue
			}
			if kind == "own" && user == "root" {
				continue // who passes over modes opens files, too, that nothing can be written to
			}
			found[kind+" "+name] = true
			if kind == "own" && strings.HasPrefix(name, "fdinfo/") {
				continue
			}
			if !slices.Contains(lists[kind], name) {
				t.Errorf("%s: %s %s is there, and docs/security-claims.md does not say so", user, kind, name)
			}
			if kind == "tells" && slices.Contains(hidden, name) {
				t.Errorf("%s: /proc/%s is said to be hidden and tells something", user, name)
			}
		}
		// A look that sees nothing proves nothing, and the table must not claim
		// what is not there. The files of /proc depend on the kernel.
		for _, kind := range []string{"socket", "protocol", "device"} {
			for _, name := range lists[kind] {
				if name != "pts/ptmx" && !found[kind+" "+name] {
					t.Errorf("%s: docs/security-claims.md says that %s %s is there; it is not", user, kind, name)
				}
			}
		}
		if !found["own comm"] && user == "user" || !found["tells cpuinfo"] {
			t.Errorf("%s: the look at /proc saw nothing: %s", user, r.stderr)
		}
		for _, name := range hidden {
			if r := w.exec(t, sandbox.ID, user, "sh", "-c", "ls -A /proc/"+name+"/ 2>/dev/null || cat /proc/"+name+" 2>/dev/null; true"); r.stdout != "" {
				t.Errorf("%s: /proc/%s is said to be hidden: %.100q", user, name, r.stdout)
			}
		}
	}
}

// mountOnSurface judges a line "rw overlay /". A mount of a single device, at its
// place or over what is hidden, may come from any file system.
func mountOnSurface(t *testing.T, user, line string, toWrite, toRead, devices []string) {
	t.Helper()
	f := strings.Fields(line)
	if len(f) != 3 {
		t.Fatalf("a mount without three words: %q", line)
	}
	mode, kind, place := f[0], f[1], f[2]
	if dir, name, _ := strings.Cut(strings.TrimPrefix(place, "/"), "/"); (dir == "dev" || dir == "proc") && slices.Contains(devices, name) {
		return
	}
	tree := false
	for _, top := range []string{"/usr", "/opt/", "/bin", "/sbin", "/lib"} {
		tree = tree || strings.HasPrefix(place, top)
	}
	switch {
	case mode == "rw" && !slices.Contains(toWrite, kind), mode == "ro" && !tree && !slices.Contains(toRead, kind), mode == "rw" && tree:
		t.Errorf("%s: a mount of %s at %s, %s, of which docs/security-claims.md does not tell", user, kind, place, mode)
	}
}

package daemon

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
)

// searched finds a text, in its usual encodings, in what is written to it.
type searched struct {
	forms [][]byte
	tail  []byte
	found bool
}

func newSearch(text string) *searched {
	b := []byte(text)
	s := &searched{forms: [][]byte{b, []byte(hex.EncodeToString(b)), []byte(strings.ToUpper(hex.EncodeToString(b))), []byte(url.QueryEscape(text)), []byte(url.PathEscape(text))}}
	for shift := range 3 {
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			all := e.EncodeToString([]byte(strings.Repeat("x", shift) + text))
			s.forms = append(s.forms, []byte(all[(shift*8+5)/6:len(all)-len(all)%4-2]))
		}
	}
	return s
}

// Write implements io.Writer.
func (s *searched) Write(p []byte) (int, error) {
	all := append(s.tail, p...)
	s.found = s.found || slices.ContainsFunc(s.forms, func(form []byte) bool { return bytes.Contains(all, form) })
	longest := 0
	for _, f := range s.forms {
		longest = max(longest, len(f))
	}
	s.tail = append([]byte(nil), all[max(0, len(all)-longest):]...)
	return len(p), nil
}

// holding returns the files below a directory that have a text.
func holding(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // what ends meanwhile, and trees of sandboxes
		}
		f, err := os.Open(path)
		if err != nil {
			return nil
		}
		defer f.Close()
		s := newSearch(text)
		_, _ = io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{f}, make([]byte, 1<<20)) // it may be removed
		if s.found {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// everything is a program that writes all that its user can read in a sandbox: files that were
// changed since it was created (for root), and of each other process its arguments, environment and
// memory. It is not
// told what is searched. On stderr it counts what it read.
const everything = `
import os, re, sys
out, since = sys.stdout.buffer, float(sys.argv[1])
count = dict(files=0, environments=0, regions=0, processes=0)
def copy(path):
    try:
        with open(path, "rb") as f:
            while data := f.read(1 << 20):
                out.write(data)
        out.write(b"\0" * 400)
        return 1
    except OSError:
        return 0
for top, dirs, files in os.walk("/") if os.getuid() == 0 else ():
    if top == "/":
        dirs[:] = [d for d in dirs if d not in ("proc", "sys", "dev")]
    for name in files:
        path = os.path.join(top, name)
        try:
            st = os.lstat(path)
        except OSError:
            continue
        if st.st_mode & 0o170000 == 0o100000 and max(st.st_ctime, st.st_mtime) >= since:
            count["files"] += copy(path)
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) == os.getpid():
        continue
    count["processes"] += 1
    copy("/proc/%s/cmdline" % pid)
    count["environments"] += copy("/proc/%s/environ" % pid)
    try:
        maps = open("/proc/%s/maps" % pid).read().splitlines()
        memory = open("/proc/%s/mem" % pid, "rb", 0)
    except OSError:
        continue
    for line in maps:
        m = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+\s*(.*)", line)
        begin, end = int(m[1], 16), int(m[2], 16)
        if m[3][0] != "r" or m[3][1] != "w" and m[4].startswith("/") or m[4] in ("[vvar]", "[vsyscall]"):
            continue
        count["regions"] += 1
        while begin < end:
            n = min(end - begin, 1 << 20)
            try:
                memory.seek(begin)
                data = memory.read(n)
            except (OSError, OverflowError):
                break
            if not data:
                break
            out.write(data)
            begin += len(data)
        out.write(b"\0" * 400)
out.flush()
print(*count.values(), file=sys.stderr)
`

// inside searches a sandbox for a value that it must not have and one that it has.
func inside(t *testing.T, s *client.Sandbox, value, control string) {
	t.Helper()
	row, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bad, good := newSearch(value), newSearch(control)
	// Root reads every file, but sees no processes of others; the user sees its own.
	var sum [4]int
	for _, user := range []string{"root", "user"} {
		var counts strings.Builder
		cmd := s.Command(t.Context(), "python3", "-c", everything, fmt.Sprint(row.CreatedAt.Add(-time.Minute).Unix()))
		cmd.User, cmd.Stdout, cmd.Stderr = user, io.MultiWriter(bad, good), &counts
		err := cmd.Run()
		var n [4]int
		if _, scan := fmt.Sscan(counts.String(), &n[0], &n[1], &n[2], &n[3]); err != nil || scan != nil {
			t.Fatalf("%s: %v, %s", user, err, counts.String())
		}
		for i := range n {
			sum[i] += n[i]
		}
	}
	t.Logf("searched: %d files, %d environments and %d regions of memory of %d processes", sum[0], sum[1], sum[2], sum[3])
	memory := sum[2] > 0
	if row.Isolation == "gvisor" {
		memory = true // no process can read another's; the image of all of it is searched
	}
	if sum[0] == 0 || sum[1] == 0 || !memory {
		t.Error("the search is incomplete")
	}
	if bad.found {
		t.Error("the value is in the sandbox")
	}
	if !good.found {
		t.Error("the control is not found in the sandbox")
	}
}

// TestSecretIsNowhere searches everything that a sandbox and a task can read, and what is stored of
// them, for the value of a secret that they used: plain, and in base64, hexadecimal and URL encoding.
// The control is a value that they have.
func TestSecretIsNowhere(t *testing.T) {
	both(t, func(v *vault) {
		value := v.set("token", v.at("example.com", "/bound", inHeader))
		control, label := "control+of/env="+rand.Text(), "control+of/output="+rand.Text()
		program := `import os, urllib.request as u
text = u.urlopen(u.Request("https://example.com:` + v.port + `/bound", headers={"Authorization": "Bearer " + os.environ["TOKEN"]})).read().decode()
print(text, flush=True)
`
		s := v.box(api.CreateSandbox{Env: map[string]string{"CONTROL": control}}, "token")
		needs(v.t, s, "python3", "curl")
		// A program that used the secret and still runs, with what it received.
		write := s.Command(v.t.Context(), "sh", "-c", "cat > /tmp/use.py")
		write.Stdin = strings.NewReader(program + "open('/tmp/answer', 'w').write(text); os.rename('/tmp/answer', '/tmp/answered'); __import__('signal').pause()\n")
		if err := write.Run(); err != nil {
			v.t.Fatal(err)
		}
		v.works("with curl", s, `curl -sS -v --trace-ascii /tmp/trace -H "Authorization: Bearer $TOKEN" https://example.com:`+v.port+`/bound 2>&1`, "token")
		v.take()
		ctx, cancel := context.WithCancel(v.t.Context())
		ran := make(chan error, 1)
		running := s.Command(ctx, "python3", "/tmp/use.py")
		go func() { ran <- running.Run() }()
		defer func() {
			cancel()
			<-ran
		}()
		eventually(v.t, "the program has its answer", func() bool {
			_, err := sh(v.t, s, "test -s /tmp/answered")
			return err == nil
		})
		if seen := v.take(); !strings.Contains(seen, value) {
			v.t.Fatalf("the server got %s", seen)
		}
		inside(v.t, s, value, control)

		if v.isolation == "gvisor" {
			paused, err := s.PauseToDisk(v.t.Context())
			if err != nil {
				v.t.Fatal(err)
			}
			// The database has environments encrypted: the control is in the memory.
			if found := holding(v.t, string(v.w.s.dir), control); found == nil {
				v.t.Error("the control is not in the image of the memory")
			} else {
				v.t.Logf("the control is in %q", found)
			}
			if found := holding(v.t, string(v.w.s.dir), value); found != nil {
				v.t.Errorf("paused to disk (%s), the value is in %q", paused.State, found)
			}
			if _, err := s.Resume(v.t.Context()); err != nil {
				v.t.Fatal(err)
			}
		}

		task, err := v.c.Tasks.Create(v.t.Context(), api.CreateTask{
			Artifact: &api.CodeArtifact{Language: "python", Run: "python3 main.py", Files: []api.File{{Path: "main.py", Content: program + "print('" + label + "')\n"}}},
			Sandbox:  api.CreateSandbox{Isolation: v.isolation, Egress: v.policy(), Secrets: []api.SecretGrant{{Name: "token"}}},
			Keep:     true,
		})
		if err != nil {
			v.t.Fatal(err)
		}
		var events strings.Builder
		for e, err := range v.c.Tasks.Events(v.t.Context(), task.ID, 0) {
			if err != nil {
				v.t.Fatal(err)
			}
			fmt.Fprintf(&events, "%+v %s\n", e, e.Data)
		}
		if task, err = v.c.Tasks.Get(v.t.Context(), string(task.ID)); err != nil || len(task.Attempts) != 1 {
			v.t.Fatalf("%+v, %v", task, err)
		}
		if seen := v.take(); !strings.Contains(seen, value) {
			v.t.Errorf("the server got %s of the task, whose events are %s", seen, &events)
		}
		if out := task.Attempts[0].Result.Stdout; !strings.Contains(out, "Bearer hortus-secret-") || !strings.Contains(out, label) {
			v.t.Errorf("the output of the task: %s", out)
		}
		if _, err := s.Kill(v.t.Context()); err != nil {
			v.t.Fatal(err)
		}
		for e, err := range s.Events(v.t.Context(), 0) { // it ends with the sandbox
			if err != nil {
				v.t.Fatal(err)
			}
			fmt.Fprintf(&events, "%+v %s\n", e, e.Data)
		}
		log, err := os.ReadFile(v.log)
		if err != nil {
			v.t.Fatal(err)
		}
		for what, c := range map[string]struct{ text, control string }{
			"the events": {events.String(), string(task.ID)}, "the log": {string(log), "/v1/secrets/"}, "the task": {fmt.Sprintf("%+v", task), label},
		} {
			bad := newSearch(value)
			if _, _ = io.WriteString(bad, c.text); bad.found || !strings.Contains(c.text, c.control) {
				v.t.Errorf("%s: the value is there: %v; the control %q is there: %v", what, bad.found, c.control, strings.Contains(c.text, c.control))
			}
		}
		if found := holding(v.t, string(v.w.s.dir), label); found == nil {
			v.t.Error("the control is not in the data directory")
		}
		if found := holding(v.t, string(v.w.s.dir), value); found != nil {
			v.t.Errorf("the value is in %q", found)
		}
	})
}

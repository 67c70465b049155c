package daemon

import (
	"bytes"
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
	"hortus.dev/test/world"
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

// lacks looks for a value in texts, each of which has a control.
func lacks(t *testing.T, value string, texts map[string][2]string) {
	t.Helper()
	for what, c := range texts {
		bad := newSearch(value)
		if _, _ = io.WriteString(bad, c[0]); bad.found || c[1] == "" || !strings.Contains(c[0], c[1]) {
			t.Errorf("%s: the value is there: %v; the control %q is there: %v", what, bad.found, c[1], strings.Contains(c[0], c[1]))
		}
	}
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
	row := world.Must(s.Info(t.Context()))(t)
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
	world.Each(t, func(v *world.Vault) {
		value := v.Set("token", v.At("example.com", "/bound", world.InHeader))
		control, label := "control+of/env="+rand.Text(), "control+of/output="+rand.Text()
		program := `import os, urllib.request as u
text = u.urlopen(u.Request("https://example.com:` + v.Out.Port + `/bound", headers={"Authorization": "Bearer " + os.environ["TOKEN"]})).read().decode()
print(text, flush=True)
`
		s := v.Sandbox(api.CreateSandbox{Env: map[string]string{"CONTROL": control}}, "token")
		world.Needs(v.T, s, "python3", "curl")
		// A program that used the secret and still runs, with what it received.
		write := s.Command(v.T.Context(), "sh", "-c", "cat > /tmp/use.py")
		write.Stdin = strings.NewReader(program + "open('/tmp/answer', 'w').write(text); os.rename('/tmp/answer', '/tmp/answered'); __import__('signal').pause()\n")
		world.OK(v.T, write.Run())
		v.Works("with curl", s, `curl -sS -v --trace-ascii /tmp/trace -H "Authorization: Bearer $TOKEN" https://example.com:`+v.Out.Port+`/bound 2>&1`, "token")
		v.Take()
		insideRunning(v, s, value, control, "exec python3 /tmp/use.py", func() {
			if seen := v.Take(); !strings.Contains(seen, value) {
				v.T.Fatalf("the server got %s", seen)
			}
		})

		if v.Isolation == "gvisor" {
			paused := world.Must(s.PauseToDisk(v.T.Context()))(v.T)
			// The database has environments encrypted: the control is in the memory.
			if found := holding(v.T, string(v.Dir), control); found == nil {
				v.T.Error("the control is not in the image of the memory")
			} else {
				v.T.Logf("the control is in %q", found)
			}
			if found := holding(v.T, string(v.Dir), value); found != nil {
				v.T.Errorf("paused to disk (%s), the value is in %q", paused.State, found)
			}
			world.Must(s.Resume(v.T.Context()))(v.T)
		}

		task, all := world.RunTask(v.T, v.Client, api.CreateTask{
			Artifact: &api.CodeArtifact{Language: "python", Run: "python3 main.py", Files: []api.File{{Path: "main.py", Content: program + "print('" + label + "')\n"}}},
			Sandbox:  api.CreateSandbox{Isolation: v.Isolation, Egress: v.Policy(), Secrets: []api.SecretGrant{{Name: "token"}}},
			Keep:     true,
		})
		var events strings.Builder
		for _, e := range all {
			fmt.Fprintf(&events, "%+v %s\n", e, e.Data)
		}
		if len(task.Attempts) != 1 {
			v.T.Fatalf("%+v", task)
		}
		if seen := v.Take(); !strings.Contains(seen, value) {
			v.T.Errorf("the server got %s of the task, whose events are %s", seen, &events)
		}
		if out := task.Attempts[0].Result.Stdout; !strings.Contains(out, "Bearer hortus-secret-") || !strings.Contains(out, label) {
			v.T.Errorf("the output of the task: %s", out)
		}
		world.Must(s.Kill(v.T.Context()))(v.T)
		for e, err := range s.Events(v.T.Context(), 0) { // it ends with the sandbox
			if err != nil {
				v.T.Fatal(err)
			}
			fmt.Fprintf(&events, "%+v %s\n", e, e.Data)
		}
		log := world.Must(os.ReadFile(v.Log))(v.T)
		lacks(v.T, value, map[string][2]string{
			"the events": {events.String(), string(task.ID)}, "the log": {string(log), "/v1/secrets/"}, "the task": {fmt.Sprintf("%+v", task), label},
		})
		if found := holding(v.T, string(v.Dir), label); found == nil {
			v.T.Error("the control is not in the data directory")
		}
		if found := holding(v.T, string(v.Dir), value); found != nil {
			v.T.Errorf("the value is in %q", found)
		}
	})
}

package attack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/test/tier"
)

// oddNames are names of files that somebody might choose to do harm.
var oddNames = []string{
	"new\nline", "carriage\rreturn", "tab\tname", "\x1b[2J\x1b]0;title\x07", "bell\a", "\x7f", " ", " leading and trailing ", "-rf", "--", "*", "?", "~", "$HOME", "`id`", "$(id)", ";",
	"a?b=c&d=e#f", "%2e%2e%2f", "%00", "+", "\"quoted\"", "'", "\\", "\\n", "C:\\x", "...", ".hidden", "\u202egnp.exe", "\ufeff", "\u00e9", "e\u0301", "\u2028", "\ufffd", "日本語",
	"\xff\xfe", "\xc0\xaf", "ok\x80", "\xed\xa0\x80", strings.Repeat("n", 255), strings.Repeat("é", 127),
}

// runNames lists a directory, each name quoted, or swaps a link for a file until
// it is killed.
func runNames(args []string) int {
	switch {
	case len(args) == 2 && args[0] == "list":
		d, err := os.Open(args[1])
		if err != nil {
			fmt.Println(err)
			return 1
		}
		names, err := d.Readdirnames(-1)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		slices.Sort(names)
		for _, n := range names {
			fmt.Println(strconv.Quote(n))
		}
		return 0
	case len(args) == 3 && args[0] == "swap":
		for swapped := false; ; swapped = true {
			next := args[1] + ".next"
			_ = os.WriteFile(next, []byte("a file"), 0o644)
			_ = os.Rename(next, args[1])
			_ = os.Symlink(args[2], next)
			_ = os.Rename(next, args[1])
			if !swapped {
				fmt.Println("swapping")
			}
		}
	}
	for _, a := range args[1:] {
		fmt.Println(strconv.Quote(a))
	}
	return 0
}

func TestNamesOfFiles(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	onEachAtOnce(t, namesOfFiles)
}

func namesOfFiles(t *testing.T, w *world) {
	sandbox := w.create(t, nil)
	c := envd.NewClient(envd.ClientConfig{Dial: w.dialServer, Prefix: "/v1/sandboxes/" + string(sandbox.ID) + "/envd"})
	defer c.Close()
	const dir = "/workspace/names"
	var names []string
	for _, name := range oddNames {
		path := dir + "/" + name
		content := "content of " + strconv.Quote(name)
		if err := c.WriteFile(within(t), "", path, strings.NewReader(content)); err != nil {
			t.Errorf("write %q: %v", name, err)
			continue
		}
		names = append(names, name)
		r, _, err := c.ReadFile(within(t), "", path)
		if err != nil {
			t.Errorf("read %q: %v", name, err)
			continue
		}
		got, err := io.ReadAll(r)
		r.Close()
		if err != nil || string(got) != content {
			t.Errorf("read %q: %q, %v", name, got, err)
		}
		// What the messages can carry comes back exactly; what they cannot is
		// refused, and never mistaken for something else.
		e, err := c.Stat(within(t), "", path)
		switch {
		case utf8.ValidString(name) && (err != nil || e.Name != name || e.Path != path):
			t.Errorf("stat %q: %+v, %v", name, e, err)
		case !utf8.ValidString(name) && api.KindOf(apiError(err)) != api.KindInvalid:
			t.Errorf("stat %q: %+v, %v; want it refused as invalid", name, e, err)
		}
	}
	if w.isolation == "wasm" {
		w.namesByScript(t, sandbox.ID, dir, names)
	} else {
		w.namesByProgram(t, sandbox.ID, dir, names)
	}
	entries, err := c.ListDir(within(t), "", dir, 1)
	if err != nil || len(entries) != len(names) {
		t.Errorf("list: %d entries, %v; want %d", len(entries), err, len(names))
	}
	// U+FFFD stands for what is not UTF-8 in a listing; nobody may reach its
	// file by another's name.
	for _, name := range []string{"\xff", "\x80"} {
		for call, do := range map[string]func(path string) error{
			"remove":  func(p string) error { return c.Remove(within(t), "", p) },
			"move":    func(p string) error { _, err := c.Move(within(t), "", p, dir+"/moved"); return err },
			"mkdir":   func(p string) error { _, err := c.MakeDir(within(t), "", p+"x"); return err },
			"listing": func(p string) error { _, err := c.ListDir(within(t), "", p, 1); return err },
			"watch":   func(p string) error { _, err := c.WatchDir(within(t), "", envd.WatchRequest{Path: p}); return err },
		} {
			if err := do(dir + "/" + name); api.KindOf(apiError(err)) != api.KindInvalid {
				t.Errorf("%s %q: %v; want it refused as invalid", call, name, err)
			}
		}
	}
	if _, err := c.Stat(within(t), "", dir+"/\ufffd"); err != nil {
		t.Errorf("the file named U+FFFD is gone: %v", err)
	}
	for _, bad := range []string{"a\x00b", "", strings.Repeat("x/", 3000) + "x"} {
		if err := c.WriteFile(within(t), "", dir+"/"+bad, strings.NewReader("x")); err == nil {
			t.Errorf("write %.20q: no error", bad)
		}
	}
}

// namesByProgram wants a program of a sandbox to see the names of a directory.
func (w *world) namesByProgram(t *testing.T, id api.SandboxID, dir string, names []string) {
	t.Helper()
	var want []string
	for _, n := range names {
		want = append(want, strconv.Quote(n))
	}
	slices.Sort(want)
	r := w.exec(t, id, "user", w.program(t, id), roleName, "list", dir)
	got := strings.Split(strings.TrimSpace(r.stdout), "\n")
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("inside are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// apiError converts an error of the wire to one of its kind.
func apiError(err error) error {
	var e *envd.Error
	if errors.As(err, &e) {
		return e.API()
	}
	return err
}

func TestNamesInCommands(t *testing.T) {
	tier.AnyUser(t)
	onEach(t, namesInCommands)
}

func namesInCommands(t *testing.T, w *world) {
	labels := map[string]string{"new\nline": "\x1b[2J", "long": strings.Repeat("l", 4<<10), "日本語": "\u202e"}
	sandbox := w.create(t, func(r *api.CreateSandbox) {
		r.Labels = labels
		r.Env = map[string]string{"GIVEN": "a\nb\x1b[2J\u202e\"'\\"}
	})
	row, err := w.db.Sandbox(t.Context(), sandbox.ID)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range labels {
		if row.Labels[k] != v {
			t.Errorf("label %q is stored as %q", k, row.Labels[k])
		}
	}
	var args, want []string
	for _, n := range append(oddNames, "", strings.Repeat("x", 100_000)) {
		if utf8.ValidString(n) {
			args, want = append(args, n), append(want, strconv.Quote(n))
		}
	}
	waits, ends := []string{"sleep", "1000"}, []string{"true"}
	if w.isolation == "wasm" {
		waits, ends = []string{"qjs", "--std", "-e", "os.sleep(1e6)"}, []string{"qjs", "-e", "1"}
		if got := values(t, w.script(t, sandbox.ID, `for (const a of scriptArgs.slice(1)) print(JSON.stringify(a))`, args...)); !slices.Equal(got, args) {
			t.Errorf("the arguments came as\n%.2000q", got)
		}
	} else {
		r := w.exec(t, sandbox.ID, "user", append([]string{w.program(t, sandbox.ID), roleName, "arguments"}, args...)...)
		if got := strings.Split(strings.TrimSpace(r.stdout), "\n"); !slices.Equal(got, want) {
			t.Errorf("the arguments came as\n%.2000s", r.stdout)
		}
	}
	printenv := []string{"printenv", "GIVEN"}
	if w.isolation == "wasm" {
		printenv = []string{"qjs", "--std", "-e", `print(std.getenv("GIVEN"))`}
	}
	if r := w.exec(t, sandbox.ID, "user", printenv...); r.stdout != "a\nb\x1b[2J\u202e\"'\\\n" {
		t.Errorf("the variable came as %q", r.stdout)
	}
	tag := "tag\nwith\x1b[2J"
	s, err := w.Guests.StartExec(within(t), sandbox.ID, api.ExecRequest{Args: waits, Tag: tag})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := w.guest(t, sandbox.ID).SendSignal(within(t), envd.Selector{Tag: &tag}, 9); err != nil {
		t.Errorf("the command is not found by its tag: %v", err)
	}
	for name, req := range map[string]api.ExecRequest{
		"argument":          {Args: append(slices.Clip(ends), "\xff")},
		"command":           {Args: []string{"\xff"}},
		"variable":          {Args: ends, Env: map[string]string{"X": "\xff"}},
		"variable's name":   {Args: ends, Env: map[string]string{"\xff": "x"}},
		"directory":         {Args: ends, Dir: "/tmp/\xff"},
		"tag":               {Args: ends, Tag: "\xff"},
		"huge argument":     {Args: append(slices.Clip(ends), strings.Repeat("x", 200_000))},
		"huge arguments":    {Args: append(slices.Clip(ends), strings.Repeat("x", 2<<20))},
		"NUL":               {Args: append(slices.Clip(ends), "a\x00b")},
		"missing directory": {Args: ends, Dir: "/\n\x1b"},
	} {
		if _, err := w.Guests.StartExec(within(t), sandbox.ID, req); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %.200v (%s); want it refused as invalid", name, err, api.KindOf(err))
		}
	}
	for _, user := range []string{"root\r\nX-Y: z", "user:user", "\xff", strings.Repeat("u", 100_000), "../root", "0"} {
		if _, err := w.Guests.StartExec(within(t), sandbox.ID, api.ExecRequest{Args: []string{"id"}, User: user}); err == nil {
			t.Errorf("a command ran as %.40q", user)
		}
	}
	if _, err := w.Creator.Create(within(t), api.CreateSandbox{Isolation: w.isolation, Env: map[string]string{"X": "\xff"}}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a sandbox with a variable that is not UTF-8: %v", err)
	}
	w.alive(t, sandbox.ID)
}

// TestLinks plants links that lead out, in circles, and elsewhere when looked at
// again.
func TestLinks(t *testing.T) { onEachAtOnce(t, links) }

func links(t *testing.T, w *world) {
	dir := t.TempDir()
	check(t, "chmod", os.Chmod(dir, 0o755))
	secret := filepath.Join(dir, "secret")
	marker := newMarker("link")
	plant(t, secret, marker, 0o666)
	sandbox := w.create(t, nil)
	c := w.guest(t, sandbox.ID)
	links := map[string]string{
		"host": secret, "proc1": "/proc/1/root" + secret, "self": "/proc/self/root" + secret, "cwd": "/proc/self/cwd/../../../.." + secret,
		"up": strings.Repeat("../", 50) + secret[1:], "loop": "loop", "a": "b", "b": "a", "fd": "/proc/self/fd/3", "exe": "/proc/self/exe",
		"mem": "/proc/self/mem", "environ": "/proc/self/environ", "tty": "/dev/tty", "zero": "/dev/zero", "kmsg": "/proc/kmsg", "shadow": "/etc/shadow",
	}
	for name, target := range links {
		if w.isolation == "wasm" { // where a script makes no links
			check(t, "link", c.Upload(within(t), "", "/workspace/"+name, envd.Upload{Link: target}, strings.NewReader("")))
		} else if r := w.exec(t, sandbox.ID, "user", "ln", "-s", target, "/workspace/"+name); r.exec.Exit.Code != 0 {
			t.Fatalf("link: %+v", r)
		}
	}
	if w.isolation != "wasm" { // which has no fifos
		if r := w.exec(t, sandbox.ID, "user", "mkfifo", "/workspace/fifo"); r.exec.Exit.Code != 0 {
			t.Fatalf("fifo: %+v", r)
		}
		links["fifo"] = ""
	}
	for _, user := range sandbox.Identities {
		for name := range links {
			path := "/workspace/" + name
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			if r, _, err := c.ReadFile(ctx, user, path); err == nil {
				b, _ := io.ReadAll(io.LimitReader(r, 1<<20))
				r.Close()
				if bytes.Contains(b, []byte(marker)) || name == "shadow" || name == "zero" || name == "fifo" || name == "loop" {
					t.Errorf("%s read %d bytes through %s", user, len(b), name)
				}
			}
			if _, err := c.Stat(ctx, user, path); err != nil {
				t.Errorf("stat %s as %s: %v", name, user, err)
			}
			if name != "fifo" && name != "tty" {
				_ = c.WriteFile(ctx, user, path, strings.NewReader("overwritten"))
			}
			_, _ = c.ListDir(ctx, user, path, 3)
			if ctx.Err() != nil {
				t.Errorf("%s as %s does not end", name, user)
			}
			cancel()
		}
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != marker {
		t.Errorf("the host's file is now %q, %v", b, err)
	}
	w.alive(t, sandbox.ID)
	if w.isolation == "wasm" {
		return // there is nothing of root's, and no program that swaps links
	}

	// The race: what was a file is a link to what is root's, and back.
	s, err := w.Guests.StartExec(within(t), sandbox.ID, api.ExecRequest{Args: []string{w.program(t, sandbox.ID), roleName, "swap", "/workspace/race", "/etc/hostname"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for {
		ev, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ev.Data != nil {
			break
		}
	}
	before := w.exec(t, sandbox.ID, "user", "cat", "/etc/hostname").stdout
	denied := 0
	for range 400 {
		if err := c.WriteFile(within(t), "user", "/workspace/race", strings.NewReader("overwritten")); err != nil {
			denied++
		}
		_, _ = c.Stat(within(t), "user", "/workspace/race")
	}
	after := w.exec(t, sandbox.ID, "user", "cat", "/etc/hostname").stdout
	if os.Geteuid() == 0 && (after != before || denied == 0) {
		t.Errorf("/etc/hostname was %q and is %q; %d writes were denied", before, after, denied)
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != marker {
		t.Errorf("the host's file is now %q, %v", b, err)
	}
	host, err := os.ReadFile("/etc/hostname")
	if err == nil && bytes.Contains(host, []byte("overwritten")) {
		t.Error("the host's own /etc/hostname was written")
	}
}

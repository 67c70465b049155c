package story

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"

	"hortus.dev/test/tier"
)

// TestCompletionInBash completes by bash's own machinery, as a script and at a
// terminal.
func TestCompletionInBash(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	id := strings.TrimSpace(g.must("--quiet", "sandbox", "create"))
	script := filepath.Join(filepath.Dir(g.dir), "completion.bash")
	if err := os.WriteFile(script, []byte(g.must("completion", "bash")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ words, want string }{
		{"sandbox sh", "show shell"},
		{"sandbox show ''", id},
		{"sandbox show " + id[:3], id},
		{"run --isolation = con", "container"},
		{"run --isolation =", "auto gvisor container docker microvm wasm process e2b daytona kubernetes"},
		{"run --log-level ''", "debug info warn error"},
		{"--data-dir /non", ""},
		{"sandbox cp ''", id + ":"},
	} {
		r := g.outside("bash", "-c", `cd /; source "$1"; shift; eval "COMP_WORDS=(hortus $1)"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _hortus; printf '%s\n' "${COMPREPLY[@]}"`,
			"bash", script, c.words)
		got := strings.Fields(r.stdout)
		if strings.HasPrefix(c.words, "sandbox cp") {
			got = got[:min(1, len(got))] // and the files of this directory
		}
		if r.code != 0 || !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s: want %s, got %s", c.words, c.want, r)
		}
	}

	// The same by pressing the tabulator.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "--norc", "--noprofile", "-i")
	cmd.Env = append(slices.Clone(g.env), "TERM=dumb", "PS1=> ", "INPUTRC=/dev/null", "HISTFILE=")
	tty, err := pty.Start(cmd)
	if err != nil {
		t.Skipf("no terminal here: %v", err)
	}
	var mu sync.Mutex
	var seen strings.Builder
	var reading sync.WaitGroup
	reading.Go(func() {
		b := make([]byte, 4096)
		for {
			n, err := tty.Read(b)
			mu.Lock()
			seen.Write(b[:n])
			mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	defer reading.Wait()
	defer cmd.Wait()
	defer tty.Close()
	screen := func(want string) {
		t.Helper()
		until(t, "bash shows "+want, func() string {
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(seen.String(), want) {
				return ""
			}
			return seen.String()
		})
	}
	send := func(text string) {
		t.Helper()
		if _, err := io.WriteString(tty, text); err != nil {
			t.Fatal(err)
		}
	}
	send(". " + script + "; echo so''urced\n")
	screen("sourced")
	send("hortus vers\t\n")
	screen("hortus version")
	screen("(build ")
	send("hortus sandbox show " + id[:4] + "\t")
	screen(id + " ")
	send("\x15exit\n")
}

// TestCompletionInOtherShells: fish completes, and zsh reads the script.
func TestCompletionInOtherShells(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	base := filepath.Dir(g.dir)
	g.must("task", "ls")
	for shell, try := range map[string][]string{
		"fish": {"fish", "--no-config", "-c", `source ` + base + `/script; complete -C "hortus sandbox sh"; complete -C "hortus run --isolation con"`},
		"zsh": {"zsh", "-f", "-c", `autoload -Uz compinit; compinit -D -u; source ` + base + `/script; print -r -- $_comps[hortus]
words=(hortus sandbox sh); CURRENT=3
_describe() { print -rl -- "${(@P)4}" }
_hortus`},
	} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("%s is not on this machine; its completion is not tried", shell)
			continue
		}
		if err := os.WriteFile(filepath.Join(base, "script"), []byte(g.must("completion", shell)), 0o600); err != nil {
			t.Fatal(err)
		}
		r := g.outside(try...)
		if r.code != 0 || !strings.Contains(r.stdout, "show") || !strings.Contains(r.stdout, "shell") || strings.Contains(r.stdout, "version") {
			t.Errorf("%s: %s", shell, r)
		}
	}
}

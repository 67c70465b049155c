package githttp

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api/secrets"
	"hortus.dev/test/gittest"
)

// push posts a push to the proxy, and returns the answer.
func (s *stage) push(body io.Reader) string {
	s.t.Helper()
	resp, err := http.Post(s.url()+"/git-receive-pack", requestType(receivePack), body)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprint(resp.StatusCode, " ", string(b))
}

// TestLyingClient sends packs that are not what their commands say to a real server. Without the
// check the server takes each of them: all objects that it needs are in its repository.
func TestLyingClient(t *testing.T) {
	for _, size := range []int{0, 1 << 20} { // with the second, the server has a part of the pack
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			s := newStage(t, "sha1", sandboxRule())
			dir := s.clone()
			bare := filepath.Join(s.root, "o/r.git")
			filler := filepath.Join(dir, "filler")
			gittest.WriteFiles(t, dir, map[string]string{"filler": randomText(size)})
			blob := gittest.Git(t, dir, "hash-object", "-w", filler)
			gittest.Git(t, dir, "checkout", "-q", "-b", "o", "origin/hortus/old")
			old := gittest.Git(t, dir, "rev-parse", "HEAD")
			good := commitIn(t, dir, "good")
			gittest.Git(t, dir, "checkout", "-q", "--orphan", "lie")
			lie := commitIn(t, dir, "lie")
			// The server has both, as objects of another branch.
			gittest.Git(t, dir, "push", "-q", bare, good+":refs/heads/a", lie+":refs/heads/b")
			pack := func(ids ...string) []byte {
				return output(t, dir, blob+"\n"+strings.Join(ids, "\n")+"\n", "pack-objects", "--stdout", "-q")
			}
			ref := "refs/heads/hortus/old"
			send := func(id string, pack []byte) string {
				list := listOf("report-status", old+" "+id+" "+ref)
				return s.push(bytes.NewReader(append(list, pack...)))
			}
			for name, p := range map[string][]byte{"another commit": pack(good), "the lie": pack(lie), "both": pack(good, lie), "empty": packOf()} {
				if answer := send(lie, p); s.ref(ref) != old || len(s.refusals()) != 1 {
					t.Fatalf("%s: the ref is %s: %s", name, s.ref(ref), answer)
				}
			}
			// Objects of a refused push were not kept.
			if answer := send(good, pack(good)); s.ref(ref) != good || !strings.HasPrefix(answer, "200 ") || len(s.refusals()) > 0 {
				t.Fatalf("control: the ref is %s: %s", s.ref(ref), answer)
			}
			// An old value that is not the ref's is for the server to refuse.
			old = lie
			next := commitIn(t, dir, "next")
			gittest.Git(t, dir, "push", "-q", bare, next+":refs/heads/b")
			if answer := send(next, pack(next)); s.ref(ref) != good || !strings.Contains(answer, "ng "+ref) {
				t.Errorf("a false old value: the ref is %s: %s", s.ref(ref), answer)
			}
			old = zeros
			if answer := send(next, pack(next)); s.ref(ref) != good || !strings.Contains(answer, "ng "+ref) {
				t.Errorf("a ref that is not new: the ref is %s: %s", s.ref(ref), answer)
			}
			// The same lie with force is taken: the check was the reason.
			s.allow(func(r *secrets.Git) { r.Force = true })
			old = good
			if answer := send(lie, pack(lie)); s.ref(ref) != lie {
				t.Errorf("with force the ref is %s: %s", s.ref(ref), answer)
			}
		})
	}
}

// randomText is n bytes that cannot be compressed well.
func randomText(n int) string {
	b := make([]byte, n)
	_, _ = io.ReadFull(noise(n), b)
	return string(b)
}

// TestDeltas pushes packs of git in which commits are deltas.
func TestDeltas(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		for _, option := range []string{"--delta-base-offset", "--no-delta-base-offset"} {
			t.Run(format+option, func(t *testing.T) {
				dir := gittest.RealPath(t, t.TempDir())
				gittest.Git(t, dir, "init", "-q", "-b", "main", "--object-format="+format, "--template=")
				message := randomText(1000)
				message = fmt.Sprintf("%x", message)
				var ids []string
				for i := range 60 {
					gittest.Git(t, dir, "commit", "-q", "--allow-empty", "-m", message+fmt.Sprint(i))
					ids = append(ids, gittest.Git(t, dir, "rev-parse", "HEAD"))
				}
				args := []string{"pack-objects", "--revs", "--window=50", "--depth=50", "-q"}
				if option == "--delta-base-offset" {
					args = append(args, option)
				}
				revs := ids[59] + "\n^" + ids[0] + "\n"
				pack := output(t, dir, revs, append(args, "--stdout")...)
				name := strings.TrimSpace(string(output(t, dir, revs, append(args, "p")...)))
				deltas := 0
				for _, line := range strings.Split(gittest.Git(t, dir, "verify-pack", "-v", "p-"+name+".idx"), "\n") {
					if f := strings.Fields(line); len(f) == 7 && f[1] == "commit" {
						deltas++
					}
				}
				if deltas < 20 {
					t.Fatalf("%d commits are deltas", deltas)
				}
				list := listOf("object-format="+format, ids[0]+" "+ids[59]+" refs/heads/hortus/x")
				whole := append(list, pack...)
				got, err := sent(t, sandboxRule(), receivePack, bytes.NewReader(whole), streaming())
				if err != nil || !bytes.Equal(got, whole) {
					t.Errorf("refused: %v", err)
				}
				// The same commits do not lead to another one.
				other := strings.Repeat("1", len(ids[0]))
				whole = append(listOf("object-format="+format, other+" "+ids[59]+" refs/heads/hortus/x"), pack...)
				if _, err := sent(t, sandboxRule(), receivePack, bytes.NewReader(whole), streaming()); err == nil || !strings.Contains(err.Error(), "is not fast-forward") {
					t.Errorf("control: %v", err)
				}
			})
		}
	}
}

// TestEnvironment has git rewrite the addresses of ssh.
func TestEnvironment(t *testing.T) {
	env := Environment([]Remote{{Host: "git.example.org", Rule: secrets.Git{Repository: "/o/r.git"}}, {Host: "git.example.com", Port: 8443, Rule: secrets.Git{Repository: "/x"}}})
	var config []string
	for i := 0; env[fmt.Sprintf("GIT_CONFIG_KEY_%d", i)] != ""; i++ {
		config = append(config, "-c", env[fmt.Sprintf("GIT_CONFIG_KEY_%d", i)]+"="+env[fmt.Sprintf("GIT_CONFIG_VALUE_%d", i)])
	}
	if n := fmt.Sprint(len(config) / 2); env["GIT_CONFIG_COUNT"] != n || len(env) != len(config)+1 {
		t.Fatalf("GIT_CONFIG_COUNT is %s of %s", env["GIT_CONFIG_COUNT"], n)
	}
	dir := gittest.NewCheckout(t, nil)
	for from, want := range map[string]string{
		"git@git.example.org:o/r.git":            "https://git.example.org/o/r.git",
		"git@git.example.org:/o/r":               "https://git.example.org/o/r",
		"ssh://git@git.example.org/o/r.git":      "https://git.example.org/o/r.git",
		"ssh://git@git.example.org:22/o/r.git":   "https://git.example.org/o/r.git",
		"ssh://git.example.org/o/r":              "https://git.example.org/o/r",
		"git+ssh://git@git.example.org/o/r.git":  "https://git.example.org/o/r.git",
		"git@git.example.com:x.git":              "https://git.example.com:8443/x.git",
		"https://git.example.org/o/r.git":        "https://git.example.org/o/r.git",
		"git@git.example.org:o/other.git":        "git@git.example.org:o/other.git",
		"git@other.example.org:o/r.git":          "git@other.example.org:o/r.git",
		"ssh://git@git.example.org:2222/o/r.git": "ssh://git@git.example.org:2222/o/r.git",
	} {
		if got := gittest.Git(t, dir, append(append([]string{}, config...), "ls-remote", "--get-url", from)...); got != want {
			t.Errorf("%s is %s, want %s", from, got, want)
		}
	}
	if len(Environment(nil)) != 0 {
		t.Error("without a repository there are variables")
	}
}

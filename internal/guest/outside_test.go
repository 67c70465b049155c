//go:build linux

package guest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hortus.dev/api/envd"
)

// yard makes a directory that root owns, which contains the user's directory "home".
func yard(t *testing.T) (top, home string) {
	t.Helper()
	top = t.TempDir()
	home = filepath.Join(top, "home")
	if err := os.Mkdir(home, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Dir(top), top} { // so that the user gets here, and writes nothing
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return top, home
}

// call sends a call as a client of E2B's does, or with more headers.
func (g *guestProc) call(t *testing.T, path string, in any, header map[string]string) (status int, body string) {
	t.Helper()
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	h := map[string]string{"Content-Type": envd.TypeJSON}
	for k, v := range header {
		h[k] = v
	}
	resp, out := g.do(t, http.MethodPost, path, strings.NewReader(string(data)), h)
	return resp.StatusCode, string(out)
}

func (g *guestProc) write(t *testing.T, path, data string, header map[string]string) (status int, body string) {
	t.Helper()
	h := map[string]string{"Content-Type": "application/octet-stream"}
	for k, v := range header {
		h[k] = v
	}
	resp, out := g.do(t, http.MethodPost, "/files?path="+url.QueryEscape(path), strings.NewReader(data), h)
	return resp.StatusCode, string(out)
}

// whose returns the owner of a file and, if it is regular, its content.
func whose(t *testing.T, path string) (uid uint32, data string) {
	t.Helper()
	fi, err := os.Lstat(path)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	if fi.Mode().IsRegular() {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		data = string(b)
	}
	return fi.Sys().(*syscall.Stat_t).Uid, data
}

type obj map[string]any

// TestFilesOutsideTheHome changes files where the user may not write. For a client of E2B's
// that works, and the user owns the new files. The control is a client of ours.
func TestFilesOutsideTheHome(t *testing.T) {
	g := startInit(t, nil)
	top, home := yard(t)
	ours := map[string]string{envd.HeaderVersion: envd.Version}
	for name, do := range map[string]func(header map[string]string) int{
		"write":  func(h map[string]string) int { s, _ := g.write(t, top+"/c/x", "1", h); return s },
		"make":   func(h map[string]string) int { s, _ := g.call(t, envd.FSMakeDir, obj{"path": top + "/c"}, h); return s },
		"remove": func(h map[string]string) int { s, _ := g.call(t, envd.FSRemove, obj{"path": home}, h); return s },
	} {
		if s := do(ours); s != http.StatusForbidden {
			t.Errorf("%s: our own client gets %d", name, s)
		}
	}
	if s, body := g.write(t, top+"/code/app/x.py", "one", nil); s != http.StatusOK {
		t.Fatalf("write: %d %s", s, body)
	}
	for path, want := range map[string]string{"code": "", "code/app": "", "code/app/x.py": "one"} {
		if uid, data := whose(t, filepath.Join(top, path)); uid != 1000 || data != want {
			t.Errorf("%s: of %d, %q", path, uid, data)
		}
	}
	// An existing file is replaced, and the user becomes its owner.
	old := filepath.Join(top, "old")
	if err := os.WriteFile(old, []byte("longer than what is written"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, body := g.write(t, old, "new", nil); s != http.StatusOK {
		t.Errorf("write over: %d %s", s, body)
	}
	if uid, data := whose(t, old); uid != 1000 || data != "new" {
		t.Errorf("of %d, %q", uid, data)
	}
	if s, body := g.call(t, envd.FSMakeDir, obj{"path": top + "/a/b"}, nil); s != http.StatusOK {
		t.Errorf("make: %d %s", s, body)
	}
	if uid, _ := whose(t, top+"/a/b"); uid != 1000 {
		t.Errorf("a directory of %d", uid)
	}
	if s, body := g.call(t, envd.FSMove, obj{"source": old, "destination": top + "/m/n"}, nil); s != http.StatusOK {
		t.Errorf("move: %d %s", s, body)
	}
	if _, data := whose(t, top+"/m/n"); data != "new" {
		t.Errorf("moved: %q", data)
	}
	// With all its contents, whoever owns them.
	if err := os.MkdirAll(top+"/deep/er/st", 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if s, body := g.call(t, envd.FSRemove, obj{"path": top + "/deep"}, nil); s != http.StatusOK {
			t.Errorf("remove: %d %s", s, body)
		}
	}
	if _, err := os.Lstat(top + "/deep"); !os.IsNotExist(err) {
		t.Error(err)
	}
	if s, body := g.call(t, envd.FSMove, obj{"source": top + "/none", "destination": top + "/x"}, nil); s != http.StatusNotFound || !strings.Contains(body, "/none") {
		t.Errorf("move of nothing: %d %s", s, body)
	}
	// A link that only root can have made leads on.
	if err := os.Symlink("code/app", top+"/link"); err != nil {
		t.Fatal(err)
	}
	if s, body := g.write(t, top+"/link/y", "y", nil); s != http.StatusOK {
		t.Errorf("by a link of root's: %d %s", s, body)
	}
	// Processes are no files.
	pid := strings.TrimSpace(g.as(t, "root", "sleep 1000 >/dev/null 2>&1 & echo $!"))
	if s, body := g.write(t, "/proc/"+pid+"/oom_score_adj", "500", nil); s != http.StatusForbidden {
		t.Errorf("write to /proc: %d %s", s, body)
	}
}

// TestRightsAreNotLentToTheUser has the user place links that would redirect the guest's
// rights to root's files, for a client that names a path of the user's.
func TestRightsAreNotLentToTheUser(t *testing.T) {
	g := startInit(t, nil)
	top, home := yard(t)
	secret := filepath.Join(top, "secret")
	if err := os.Mkdir(top+"/dir", 0o755); err != nil {
		t.Fatal(err)
	}
	g.as(t, "user", "cd "+home+" && ln -s ../secret link && ln -s ../dir dirlink && ln -s ../secret2 dangling")
	// As if the kernel let the user link files of others.
	intact := func() {
		t.Helper()
		if uid, data := whose(t, secret); uid != 0 || data != "of root" {
			t.Errorf("the file of root's is of %d now, %q", uid, data)
		}
		if names, err := filepath.Glob(top + "/dir/*"); err != nil || len(names) != 1 {
			t.Errorf("root's directory has %q, %v", names, err)
		}
		if _, err := os.Lstat(top + "/secret2"); err == nil {
			t.Error("a file was made where a link points")
		}
	}
	for _, p := range []string{secret, top + "/dir/kept"} {
		if err := os.WriteFile(p, []byte("of root"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(secret, home+"/twin"); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() (int, string){
		"write by a link":          func() (int, string) { return g.write(t, home+"/link", "x", nil) },
		"write by a dangling link": func() (int, string) { return g.write(t, home+"/dangling", "x", nil) },
		"write by another name":    func() (int, string) { return g.write(t, home+"/twin", "x", nil) },
		"write below a link":       func() (int, string) { return g.write(t, home+"/dirlink/x", "x", nil) },
		"make below a link":        func() (int, string) { return g.call(t, envd.FSMakeDir, obj{"path": home + "/dirlink/x"}, nil) },
		"remove below a link":      func() (int, string) { return g.call(t, envd.FSRemove, obj{"path": home + "/dirlink/kept"}, nil) },
		"move from below a link": func() (int, string) {
			return g.call(t, envd.FSMove, obj{"source": home + "/dirlink/kept", "destination": home + "/taken"}, nil)
		},
		"move to below a link": func() (int, string) {
			return g.call(t, envd.FSMove, obj{"source": top + "/dir/kept", "destination": home + "/dirlink/taken"}, nil)
		},
	} {
		if s, body := do(); s != http.StatusForbidden {
			t.Errorf("%s: %d %s", name, s, body)
		}
		intact()
	}
}

package forgeserver

import (
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// bareBranch returns a function that looks up a branch in a bare git repository.
func bareBranch(dir string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		out, err := exec.Command("git", "--git-dir", dir, "rev-parse", "--verify", "--quiet", "--end-of-options", "refs/heads/"+name).Output()
		return strings.TrimSpace(string(out)), err == nil
	}
}

// git serves repositories on disk over git's smart HTTP. As on a real forge, the token is
// the password of basic authentication, with any user name.
// https://git-scm.com/docs/git-http-backend
func (s *Server) git(w http.ResponseWriter, r *http.Request) {
	path, rest, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, s.cfg.Prefix+"/"), ".git/")
	if !ok {
		http.NotFound(w, r)
		return
	}
	u, known := s.user(r, "Basic")
	repo := s.repository(path, u)
	if !known {
		w.Header().Set("WWW-Authenticate", `Basic realm="forge"`)
		http.Error(w, "a token is needed", http.StatusUnauthorized)
		return
	}
	if repo == nil || repo.Dir == "" {
		http.NotFound(w, r)
		return
	}
	push := r.URL.Query().Get("service") == "git-receive-pack" || rest == "git-receive-pack"
	if u.permissions != nil && (!atLeast(u.permissions["contents"], "read") || push && !atLeast(u.permissions["contents"], "write")) {
		http.Error(w, "the installation may not do that", http.StatusForbidden)
		return
	}
	if push && (!u.Write || repo.Archived) {
		http.Error(w, "this token may not push", http.StatusForbidden)
		return
	}
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		http.Error(w, "git is missing", http.StatusInternalServerError)
		return
	}
	h := cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Root: s.cfg.Prefix + "/" + path + ".git",
		Env: []string{
			"GIT_PROJECT_ROOT=" + repo.Dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=" + u.Login,
			"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
			// Another user may own the directory.
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		},
		InheritEnv: []string{"PATH"},
	}
	h.ServeHTTP(w, r)
}

package forgeserver

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// github serves GitHub's REST API, at the path of an Enterprise Server.
// https://docs.github.com/rest
func (s *Server) github() {
	p := s.cfg.Prefix + "/api/v3"
	s.mux.HandleFunc(p+"/meta", s.githubMeta)
	repo := p + "/repos/{owner}/{name}"
	s.mux.HandleFunc("GET "+repo, s.onGitHub(s.githubRepository))
	s.mux.HandleFunc("GET "+repo+"/branches", s.onGitHub(s.githubBranches))
	s.mux.HandleFunc("GET "+repo+"/branches/{branch...}", s.onGitHub(s.githubBranch))
	s.mux.HandleFunc("GET "+repo+"/pulls", s.onGitHub(s.githubList))
	s.mux.HandleFunc("POST "+repo+"/pulls", s.onGitHub(s.githubCreate))
	s.mux.HandleFunc("PATCH "+repo+"/pulls/{number}", s.onGitHub(s.githubUpdate))
	s.mux.HandleFunc("POST "+repo+"/issues/{number}/labels", s.onGitHub(s.githubLabel))
}

func githubError(w http.ResponseWriter, code int, message string, errs ...object) {
	o := object{"message": message, "documentation_url": "https://docs.github.com/rest", "status": strconv.Itoa(code)}
	if errs != nil {
		o["errors"] = errs
	}
	answer(w, code, o)
}

// githubMeta is "Get GitHub Enterprise Server meta information", GET /meta.
func (s *Server) githubMeta(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-GitHub-Request-Id", "0400:7B9D:1")
	answer(w, http.StatusOK, object{"verifiable_password_authentication": true, "installed_version": "3.20.0"})
}

type onRepository func(w http.ResponseWriter, r *http.Request, repo *Repository, u User)

// onGitHub does what GitHub does before every call: a user agent is a must, and a
// call that is not read needs a user who may write.
func (s *Server) onGitHub(next onRepository) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-GitHub-Request-Id", "0400:7B9D:1")
		w.Header().Set("X-RateLimit-Limit", "5000")
		w.Header().Set("X-RateLimit-Remaining", "4900")
		w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10))
		if r.UserAgent() == "" {
			http.Error(w, "Request forbidden by administrative rules. Please make sure your request has a User-Agent header", http.StatusForbidden)
			return
		}
		u, ok := s.user(r, "Bearer", "token")
		if !ok {
			githubError(w, http.StatusUnauthorized, "Bad credentials")
			return
		}
		path := r.PathValue("owner") + "/" + r.PathValue("name")
		repo := s.repository(path, u)
		for _, m := range s.cfg.Repositories {
			if m.Moved == path {
				// A renamed repository: 301 for GET, 307 for the others.
				code := http.StatusTemporaryRedirect
				if r.Method == http.MethodGet {
					code = http.StatusMovedPermanently
				}
				u := *r.URL
				u.Path, u.RawPath = strings.Replace(u.Path, path, m.Path, 1), strings.Replace(u.RawPath, path, m.Path, 1)
				w.Header().Set("Location", "http://"+r.Host+u.RequestURI())
				githubError(w, code, "Moved Permanently")
				return
			}
		}
		if repo == nil {
			githubError(w, http.StatusNotFound, "Not Found")
			return
		}
		if r.Method != http.MethodGet && !u.Write {
			githubError(w, http.StatusForbidden, "Resource not accessible by personal access token")
			return
		}
		if r.Method != http.MethodGet && repo.Archived {
			githubError(w, http.StatusForbidden, "Repository was archived so is read-only.")
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		next(w, r, repo, u)
	}
}

func (s *Server) githubRepo(r *http.Request, repo *Repository) object {
	return object{
		"id": repo.id, "name": repo.name(), "full_name": repo.Path, "private": repo.Hidden,
		"owner":    object{"login": repo.owner(), "type": "Organization"},
		"html_url": "http://" + r.Host + s.cfg.Prefix + "/" + repo.Path, "default_branch": repo.DefaultBranch, "archived": repo.Archived,
	}
}

// githubRepository is "Get a repository", GET /repos/{owner}/{repo}.
func (s *Server) githubRepository(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) {
	answer(w, http.StatusOK, s.githubRepo(r, repo))
}

// githubBranches is "List branches", GET /repos/{owner}/{repo}/branches; only
// those that are protected are known here.
func (s *Server) githubBranches(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) {
	names, next := page(r, repo.Protected, "per_page", 30, 100)
	list := []object{}
	for _, n := range names {
		hash, _ := repo.Branch(n)
		list = append(list, object{"name": n, "commit": object{"sha": hash}, "protected": true})
	}
	link(w, r, next)
	answer(w, http.StatusOK, list)
}

// githubBranch is "Get a branch", GET /repos/{owner}/{repo}/branches/{branch}.
func (s *Server) githubBranch(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) {
	hash, ok := repo.Branch(r.PathValue("branch"))
	if !ok {
		githubError(w, http.StatusNotFound, "Branch not found")
		return
	}
	answer(w, http.StatusOK, object{"name": r.PathValue("branch"), "commit": object{"sha": hash}, "protected": false})
}

func (s *Server) githubPull(r *http.Request, repo *Repository, p *Pull) object {
	head := s.githubRepo(r, repo)
	owner := repo.owner()
	if p.Fork {
		head["id"], head["full_name"], owner = repo.id+1000, p.Author+"/"+repo.name(), p.Author
	}
	source, _ := repo.Branch(p.Source)
	target, _ := repo.Branch(p.Target)
	labels := []object{}
	for _, l := range p.Labels {
		labels = append(labels, object{"id": 1, "name": l, "color": "ededed"})
	}
	state := p.State
	if state == "merged" {
		state = "closed"
	}
	return object{
		"id": 100 + p.Number, "number": p.Number, "state": state, "title": p.Title, "body": p.Body, "draft": p.Draft,
		"html_url": fmt.Sprintf("http://%s%s/%s/pull/%d", r.Host, s.cfg.Prefix, repo.Path, p.Number), "user": object{"login": p.Author},
		"labels": labels,
		"head":   object{"label": owner + ":" + p.Source, "ref": p.Source, "sha": source, "repo": head},
		"base":   object{"label": repo.owner() + ":" + p.Target, "ref": p.Target, "sha": target, "repo": s.githubRepo(r, repo)},
	}
}

// githubList is "List pull requests", GET /repos/{owner}/{repo}/pulls. A head
// without its owner does not filter.
func (s *Server) githubList(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) {
	owner, branch, ok := strings.Cut(r.URL.Query().Get("head"), ":")
	var all []*Pull
	for _, p := range s.open(repo) {
		from := repo.owner()
		if p.Fork {
			from = p.Author
		}
		if !ok || p.Source == branch && strings.EqualFold(from, owner) {
			all = append(all, p)
		}
	}
	pulls, next := page(r, all, "per_page", 30, 100)
	list := []object{}
	for _, p := range pulls {
		list = append(list, s.githubPull(r, repo, p))
	}
	link(w, r, next)
	answer(w, http.StatusOK, list)
}

// githubCreate is "Create a pull request", POST /repos/{owner}/{repo}/pulls.
func (s *Server) githubCreate(w http.ResponseWriter, r *http.Request, repo *Repository, u User) {
	var in struct {
		Title, Body, Head, Base string
		Draft                   bool
	}
	if read(w, r, &in) != nil {
		githubError(w, http.StatusBadRequest, "Problems parsing JSON")
		return
	}
	in.Head = strings.TrimPrefix(in.Head, repo.owner()+":")
	invalid := func(e object) {
		e["resource"] = "PullRequest"
		githubError(w, http.StatusUnprocessableEntity, "Validation Failed", e)
	}
	source, ok := repo.Branch(in.Head)
	if !ok {
		invalid(object{"field": "head", "code": "invalid"})
		return
	}
	target, ok := repo.Branch(in.Base)
	switch {
	case !ok:
		invalid(object{"field": "base", "code": "invalid"})
	case in.Title == "":
		invalid(object{"field": "title", "code": "missing_field"})
	case len([]rune(in.Body)) > 65536:
		invalid(object{"field": "body", "code": "custom", "message": "body is too long (maximum is 65536 characters)"})
	case source == target:
		invalid(object{"code": "custom", "message": "No commits between " + in.Base + " and " + in.Head})
	case s.duplicate(repo, in.Head, in.Base) != nil:
		invalid(object{"code": "custom", "message": "A pull request already exists for " + repo.owner() + ":" + in.Head + "."})
	case in.Draft && repo.NoDrafts:
		githubError(w, http.StatusUnprocessableEntity, "Draft pull requests are not supported in this repository.")
	default:
		p := &Pull{Repository: repo.Path, Source: in.Head, Target: in.Base, Title: in.Title, Body: in.Body, Draft: in.Draft, Author: u.Login}
		s.add(p)
		answer(w, http.StatusCreated, s.githubPull(r, repo, p))
	}
}

// githubUpdate is "Update a pull request", PATCH
// /repos/{owner}/{repo}/pulls/{pull_number}. It knows no draft.
func (s *Server) githubUpdate(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) {
	var in struct{ Title, Body *string }
	p := s.pull(repo, r.PathValue("number"))
	if p == nil {
		githubError(w, http.StatusNotFound, "Not Found")
		return
	}
	if read(w, r, &in) != nil {
		githubError(w, http.StatusBadRequest, "Problems parsing JSON")
		return
	}
	if in.Title != nil {
		p.Title = *in.Title
	}
	if in.Body != nil {
		p.Body = *in.Body
	}
	answer(w, http.StatusOK, s.githubPull(r, repo, p))
}

// githubLabel is "Add labels to an issue", POST
// /repos/{owner}/{repo}/issues/{issue_number}/labels. The documented body is
// {"labels": [...]}; a bare list is taken too.
func (s *Server) githubLabel(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) {
	p := s.pull(repo, r.PathValue("number"))
	if p == nil {
		githubError(w, http.StatusNotFound, "Not Found")
		return
	}
	var in any
	if read(w, r, &in) != nil {
		githubError(w, http.StatusBadRequest, "Problems parsing JSON")
		return
	}
	if o, ok := in.(map[string]any); ok {
		in = o["labels"]
	}
	names, _ := in.([]any)
	for _, n := range names {
		if name, ok := n.(string); ok {
			s.label(repo, p, []string{name})
		}
	}
	answer(w, http.StatusOK, s.githubPull(r, repo, p)["labels"])
}

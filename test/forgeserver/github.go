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
	s.appRoutes(p)
	repo := p + "/repos/{owner}/{name}"
	s.pullReviews(p, githubCheck)
	s.reads(repo, "/comments", "/pulls", githubCheck, s.githubPull)
	s.handle("GET "+repo, githubCheck, s.githubRepository)
	s.handle("GET "+repo+"/branches", githubCheck, s.githubBranches)
	s.handle("GET "+repo+"/branches/{branch...}", githubCheck, s.githubBranch)
	s.handle("GET "+repo+"/pulls", githubCheck, s.githubList)
	s.handle("POST "+repo+"/pulls", githubCheck, s.githubCreate)
	s.handle("PATCH "+repo+"/pulls/{number}", githubCheck, s.githubUpdate)
	s.handle("POST "+repo+"/issues/{number}/labels", githubCheck, s.githubLabel)
}

func githubError(code int, message string, errs ...object) (int, any) {
	o := object{"message": message, "documentation_url": "https://docs.github.com/rest", "status": strconv.Itoa(code)}
	if errs != nil {
		o["errors"] = errs
	}
	return code, o
}

// githubMeta is "Get GitHub Enterprise Server meta information", GET /meta.
func (s *Server) githubMeta(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-GitHub-Request-Id", "0400:7B9D:1")
	answer(w, http.StatusOK, object{"verifiable_password_authentication": true, "installed_version": "3.20.0"})
}

// githubCheck does what GitHub does before every call. A user agent is required, and a
// call other than GET needs a user who may write.
func githubCheck(s *Server, w http.ResponseWriter, r *http.Request) (*Repository, User, int, any) {
	w.Header().Set("X-GitHub-Request-Id", "0400:7B9D:1")
	w.Header().Set("X-RateLimit-Limit", "5000")
	w.Header().Set("X-RateLimit-Remaining", "4900")
	w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10))
	u, ok := s.user(r, "Bearer", "token")
	repo := s.repository(ownerAndName(r), u)
	code, refusal := 0, any(nil)
	switch write, moved := r.Method != http.MethodGet, s.moved(r); {
	case r.UserAgent() == "":
		code, refusal = http.StatusForbidden, "Request forbidden by administrative rules. Please make sure your request has a User-Agent header"
	case !ok && !anonymous(r, repo):
		code, refusal = githubError(http.StatusUnauthorized, "Bad credentials")
	case moved != "":
		// A renamed repository: 301 for GET, 307 for the others.
		w.Header().Set("Location", moved)
		code = http.StatusMovedPermanently
		if write {
			code = http.StatusTemporaryRedirect
		}
		code, refusal = githubError(code, "Moved Permanently")
	case repo == nil:
		code, refusal = githubError(http.StatusNotFound, "Not Found")
	case u.permissions != nil && !permitted(r, u):
		code, refusal = githubError(http.StatusForbidden, "Resource not accessible by integration")
	case write && !u.Write:
		code, refusal = githubError(http.StatusForbidden, "Resource not accessible by personal access token")
	case write && repo.Archived:
		code, refusal = githubError(http.StatusForbidden, "Repository was archived so is read-only.")
	}
	return repo, u, code, refusal
}

// moved returns the new URL for a request to a renamed repository, or "".
func (s *Server) moved(r *http.Request) string {
	path := ownerAndName(r)
	for _, m := range s.cfg.Repositories {
		if m.Moved == path {
			u := *r.URL
			u.Path, u.RawPath = strings.Replace(u.Path, path, m.Path, 1), strings.Replace(u.RawPath, path, m.Path, 1)
			return "http://" + r.Host + u.RequestURI()
		}
	}
	return ""
}

func (s *Server) githubRepo(r *http.Request, repo *Repository) object {
	return object{
		"id": repo.id, "name": repo.name(), "full_name": repo.Path, "private": repo.Hidden,
		"owner":    object{"login": repo.owner(), "type": "Organization"},
		"html_url": "http://" + r.Host + s.cfg.Prefix + "/" + repo.Path, "default_branch": repo.DefaultBranch, "archived": repo.Archived,
	}
}

// githubRepository is "Get a repository", GET /repos/{owner}/{repo}.
func (s *Server) githubRepository(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
	return http.StatusOK, s.githubRepo(r, repo)
}

// githubBranches is "List branches", GET /repos/{owner}/{repo}/branches. It returns only
// protected branches.
func (s *Server) githubBranches(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
	return list(s, w, r, repo.Protected, "per_page", 30, 100, func(name string) object {
		hash, _ := repo.Branch(name)
		return object{"name": name, "commit": object{"sha": hash}, "protected": true}
	})
}

// githubBranch is "Get a branch", GET /repos/{owner}/{repo}/branches/{branch}.
func (s *Server) githubBranch(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
	hash, ok := repo.Branch(r.PathValue("branch"))
	if !ok {
		return githubError(http.StatusNotFound, "Branch not found")
	}
	return http.StatusOK, object{"name": r.PathValue("branch"), "commit": object{"sha": hash}, "protected": false}
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
func (s *Server) githubList(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
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
	return list(s, w, r, all, "per_page", 30, 100, func(p *Pull) object { return s.githubPull(r, repo, p) })
}

// githubCreate is "Create a pull request", POST /repos/{owner}/{repo}/pulls.
func (s *Server) githubCreate(w http.ResponseWriter, r *http.Request, repo *Repository, u User) (int, any) {
	var in struct {
		Title, Body, Head, Base string
		Draft                   bool
	}
	if read(w, r, &in) != nil {
		return githubError(http.StatusBadRequest, "Problems parsing JSON")
	}
	in.Head = strings.TrimPrefix(in.Head, repo.owner()+":")
	invalid := func(e object) (int, any) {
		e["resource"] = "PullRequest"
		return githubError(http.StatusUnprocessableEntity, "Validation Failed", e)
	}
	source, ok := repo.Branch(in.Head)
	if !ok {
		return invalid(object{"field": "head", "code": "invalid"})
	}
	target, ok := repo.Branch(in.Base)
	switch {
	case !ok:
		return invalid(object{"field": "base", "code": "invalid"})
	case in.Title == "":
		return invalid(object{"field": "title", "code": "missing_field"})
	case len([]rune(in.Body)) > 65536:
		return invalid(object{"field": "body", "code": "custom", "message": "body is too long (maximum is 65536 characters)"})
	case source == target:
		return invalid(object{"code": "custom", "message": "No commits between " + in.Base + " and " + in.Head})
	case s.duplicate(repo, in.Head, in.Base) != nil:
		return invalid(object{"code": "custom", "message": "A pull request already exists for " + repo.owner() + ":" + in.Head + "."})
	case in.Draft && repo.NoDrafts:
		return githubError(http.StatusUnprocessableEntity, "Draft pull requests are not supported in this repository.")
	}
	p := &Pull{Repository: repo.Path, Source: in.Head, Target: in.Base, Title: in.Title, Body: in.Body, Draft: in.Draft, Author: u.Login}
	s.add(p)
	return http.StatusCreated, s.githubPull(r, repo, p)
}

// githubUpdate is "Update a pull request", PATCH
// /repos/{owner}/{repo}/pulls/{pull_number}. It cannot change whether it is a draft.
func (s *Server) githubUpdate(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
	var in struct{ Title, Body *string }
	p := s.pull(repo, r.PathValue("number"))
	if p == nil {
		return githubError(http.StatusNotFound, "Not Found")
	}
	if read(w, r, &in) != nil {
		return githubError(http.StatusBadRequest, "Problems parsing JSON")
	}
	if in.Title != nil {
		p.Title = *in.Title
	}
	if in.Body != nil {
		p.Body = *in.Body
	}
	return http.StatusOK, s.githubPull(r, repo, p)
}

// githubLabel is "Add labels to an issue", POST
// /repos/{owner}/{repo}/issues/{issue_number}/labels. The documented body is
// {"labels": [...]}; a list alone is accepted too.
func (s *Server) githubLabel(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
	p := s.pull(repo, r.PathValue("number"))
	if p == nil {
		return githubError(http.StatusNotFound, "Not Found")
	}
	var in any
	if read(w, r, &in) != nil {
		return githubError(http.StatusBadRequest, "Problems parsing JSON")
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
	return http.StatusOK, s.githubPull(r, repo, p)["labels"]
}

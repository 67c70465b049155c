package forgeserver

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
)

// gitea serves the API of Gitea and Forgejo.
// https://docs.gitea.com/api/
func (s *Server) gitea() {
	p := s.cfg.Prefix + "/api/v1"
	s.mux.HandleFunc("GET "+p+"/version", func(w http.ResponseWriter, _ *http.Request) {
		// "Returns the version of the Gitea application", GET /version.
		answer(w, http.StatusOK, object{"version": "1.26.0"})
	})
	repo := p + "/repos/{owner}/{name}"
	s.mux.HandleFunc("GET "+repo, s.onGitea(s.giteaRepository))
	s.mux.HandleFunc("GET "+repo+"/branches", s.onGitea(s.giteaBranches))
	s.mux.HandleFunc("GET "+repo+"/branches/{branch...}", s.onGitea(s.giteaBranch))
	s.mux.HandleFunc("GET "+repo+"/branch_protections", s.onGitea(s.giteaProtections))
	s.mux.HandleFunc("GET "+repo+"/pulls", s.onGitea(s.giteaList))
	s.mux.HandleFunc("POST "+repo+"/pulls", s.onGitea(s.giteaCreate))
	s.mux.HandleFunc("PATCH "+repo+"/pulls/{number}", s.onGitea(s.giteaUpdate))
	s.mux.HandleFunc("GET "+repo+"/labels", s.onGitea(s.giteaLabels))
	s.mux.HandleFunc("POST "+repo+"/labels", s.onGitea(s.giteaNewLabel))
	s.mux.HandleFunc("POST "+repo+"/issues/{number}/labels", s.onGitea(s.giteaLabel))
}

func giteaError(w http.ResponseWriter, r *http.Request, code int, message string) {
	answer(w, code, object{"message": message, "url": "http://" + r.Host + "/api/swagger"})
}

// onGitea does what Gitea does before every call.
func (s *Server) onGitea(next onRepository) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		u, ok := s.user(r, "token", "Bearer")
		if !ok {
			giteaError(w, r, http.StatusUnauthorized, "token is required")
			return
		}
		repo := s.repository(r.PathValue("owner")+"/"+r.PathValue("name"), u)
		if repo == nil {
			giteaError(w, r, http.StatusNotFound, "The target couldn't be found.")
			return
		}
		if r.Method != http.MethodGet && !u.Write {
			giteaError(w, r, http.StatusForbidden, "token does not have at least one of required scope(s): [write:repository]")
			return
		}
		if r.Method != http.MethodGet && repo.Archived {
			giteaError(w, r, http.StatusLocked, repo.Path+" is archived")
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		next(w, r, repo, u)
	}
}

func (s *Server) giteaRepo(r *http.Request, repo *Repository) object {
	return object{
		"id": repo.id, "name": repo.name(), "full_name": repo.Path, "owner": object{"id": 1, "login": repo.owner()},
		"html_url": "http://" + r.Host + s.cfg.Prefix + "/" + repo.Path, "default_branch": repo.DefaultBranch, "archived": repo.Archived,
	}
}

// giteaRepository is "Get a repository", GET /repos/{owner}/{repo}.
func (s *Server) giteaRepository(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) {
	answer(w, http.StatusOK, s.giteaRepo(r, repo))
}

// giteaBranches is "List a repository's branches", GET
// /repos/{owner}/{repo}/branches; only those that are protected are known here.
func (s *Server) giteaBranches(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) {
	names, next := page(r, repo.Protected, "limit", 30, 50)
	list := []object{}
	for _, n := range names {
		hash, _ := repo.Branch(n)
		list = append(list, object{"name": n, "commit": object{"id": hash}, "protected": true})
	}
	link(w, r, next)
	answer(w, http.StatusOK, list)
}

// giteaBranch is "Retrieve a specific branch", GET
// /repos/{owner}/{repo}/branches/{branch}.
func (s *Server) giteaBranch(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) {
	hash, ok := repo.Branch(r.PathValue("branch"))
	if !ok {
		giteaError(w, r, http.StatusNotFound, "The target couldn't be found.")
		return
	}
	answer(w, http.StatusOK, object{"name": r.PathValue("branch"), "commit": object{"id": hash}, "protected": false})
}

// giteaProtections is "List branch protections for a repository", GET
// /repos/{owner}/{repo}/branch_protections, for administrators.
func (s *Server) giteaProtections(w http.ResponseWriter, r *http.Request, repo *Repository, u User) {
	if !u.Admin {
		giteaError(w, r, http.StatusForbidden, "user should be an owner or a collaborator with admin write of a repository")
		return
	}
	list := []object{}
	for _, n := range repo.Protected {
		list = append(list, object{"branch_name": n, "rule_name": n, "enable_push": false})
	}
	answer(w, http.StatusOK, list)
}

func (s *Server) giteaPull(r *http.Request, repo *Repository, p *Pull) object {
	head, owner := s.giteaRepo(r, repo), repo.owner()
	if p.Fork {
		head["id"], owner = repo.id+1000, p.Author
	}
	hash, _ := repo.Branch(p.Source)
	base, _ := repo.Branch(p.Target)
	title := p.Title
	if p.Draft {
		title = "WIP: " + title
	}
	labels := []object{}
	for _, l := range p.Labels {
		id, _ := s.labelID(repo, l)
		labels = append(labels, object{"id": id, "name": l, "color": "ededed"})
	}
	state := p.State
	if state == "merged" {
		state = "closed"
	}
	return object{
		"id": 100 + p.Number, "number": p.Number, "state": state, "title": title, "body": p.Body, "draft": p.Draft, "labels": labels,
		"user": object{"id": 1, "login": p.Author}, "merged": p.State == "merged",
		"html_url": fmt.Sprintf("http://%s%s/%s/pulls/%d", r.Host, s.cfg.Prefix, repo.Path, p.Number),
		"head":     object{"label": owner + ":" + p.Source, "ref": p.Source, "sha": hash, "repo_id": head["id"], "repo": head},
		"base":     object{"label": p.Target, "ref": p.Target, "sha": base, "repo_id": repo.id, "repo": s.giteaRepo(r, repo)},
	}
}

// giteaList is "List a repo's pull requests", GET /repos/{owner}/{repo}/pulls.
func (s *Server) giteaList(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) {
	pulls, next := page(r, s.open(repo), "limit", 30, 50)
	list := []object{}
	for _, p := range pulls {
		list = append(list, s.giteaPull(r, repo, p))
	}
	link(w, r, next)
	answer(w, http.StatusOK, list)
}

// wip splits the title of a draft, which is one by its beginning: the default of
// [repository.pull-request] WORK_IN_PROGRESS_PREFIXES.
var wip = regexp.MustCompile(`(?i)^(?:wip:|\[wip\])\s*`)

// giteaCreate is "Create a pull request", POST /repos/{owner}/{repo}/pulls.
func (s *Server) giteaCreate(w http.ResponseWriter, r *http.Request, repo *Repository, u User) {
	var in struct{ Title, Body, Head, Base string }
	if read(w, r, &in) != nil || in.Title == "" {
		giteaError(w, r, http.StatusUnprocessableEntity, "[Title]: Required")
		return
	}
	_, source := repo.Branch(in.Head)
	_, target := repo.Branch(in.Base)
	if !source || !target {
		giteaError(w, r, http.StatusNotFound, "The target couldn't be found.")
		return
	}
	if p := s.duplicate(repo, in.Head, in.Base); p != nil {
		giteaError(w, r, http.StatusConflict, fmt.Sprintf(
			"pull request already exists for these targets [id: %d, issue_id: %d, head_repo_id: %d, base_repo_id: %d, head_branch: %s, base_branch: %s]",
			p.Number, p.Number, repo.id, repo.id, in.Head, in.Base))
		return
	}
	p := &Pull{Repository: repo.Path, Source: in.Head, Target: in.Base, Body: in.Body, Author: u.Login}
	p.Title = wip.ReplaceAllString(in.Title, "")
	p.Draft = p.Title != in.Title
	s.add(p)
	answer(w, http.StatusCreated, s.giteaPull(r, repo, p))
}

// giteaUpdate is "Update a pull request", PATCH
// /repos/{owner}/{repo}/pulls/{index}.
func (s *Server) giteaUpdate(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) {
	var in struct {
		Title string
		Body  *string
	}
	p := s.pull(repo, r.PathValue("number"))
	if p == nil {
		giteaError(w, r, http.StatusNotFound, "The target couldn't be found.")
		return
	}
	if read(w, r, &in) != nil {
		giteaError(w, r, http.StatusUnprocessableEntity, "the body cannot be read")
		return
	}
	if in.Title != "" {
		p.Title = wip.ReplaceAllString(in.Title, "")
		p.Draft = p.Title != in.Title
	}
	if in.Body != nil {
		p.Body = *in.Body
	}
	answer(w, http.StatusCreated, s.giteaPull(r, repo, p))
}

// giteaLabels is "Get all of a repository's labels", GET
// /repos/{owner}/{repo}/labels.
func (s *Server) giteaLabels(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) {
	all := []object{}
	for i, l := range s.labels[repo.Path] {
		all = append(all, object{"id": i + 1, "name": l, "color": "ededed"})
	}
	list, next := page(r, all, "limit", 30, 50)
	link(w, r, next)
	answer(w, http.StatusOK, list)
}

// giteaNewLabel is "Create a label", POST /repos/{owner}/{repo}/labels.
func (s *Server) giteaNewLabel(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) {
	var in struct{ Name, Color string }
	if read(w, r, &in) != nil || in.Name == "" || in.Color == "" {
		giteaError(w, r, http.StatusUnprocessableEntity, "[Name]: Required")
		return
	}
	s.labels[repo.Path] = append(s.labels[repo.Path], in.Name)
	answer(w, http.StatusCreated, object{"id": len(s.labels[repo.Path]), "name": in.Name, "color": in.Color})
}

// giteaLabel is "Add a label to an issue", POST
// /repos/{owner}/{repo}/issues/{index}/labels, with the labels' numbers.
func (s *Server) giteaLabel(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) {
	var in struct{ Labels []any }
	p := s.pull(repo, r.PathValue("number"))
	if p == nil || read(w, r, &in) != nil {
		giteaError(w, r, http.StatusNotFound, "The target couldn't be found.")
		return
	}
	for _, v := range in.Labels {
		n, ok := v.(float64)
		if !ok || int(n) < 1 || int(n) > len(s.labels[repo.Path]) {
			giteaError(w, r, http.StatusUnprocessableEntity, "label does not exist [label_id: "+strconv.Itoa(int(n))+"]")
			return
		}
		s.label(repo, p, []string{s.labels[repo.Path][int(n)-1]})
	}
	answer(w, http.StatusOK, s.giteaPull(r, repo, p)["labels"])
}

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
	s.pullReviews(p, giteaCheck)
	s.reads(repo, "/comments", "/pulls", giteaCheck, s.giteaPull)
	s.handle("GET "+repo, giteaCheck, s.giteaRepository)
	s.handle("GET "+repo+"/branches", giteaCheck, s.giteaBranches)
	s.handle("GET "+repo+"/branches/{branch...}", giteaCheck, s.giteaBranch)
	s.handle("GET "+repo+"/branch_protections", giteaCheck, s.giteaProtections)
	s.handle("GET "+repo+"/pulls", giteaCheck, s.giteaList)
	s.handle("POST "+repo+"/pulls", giteaCheck, s.giteaCreate)
	s.handle("PATCH "+repo+"/pulls/{number}", giteaCheck, s.giteaUpdate)
	s.handle("GET "+repo+"/labels", giteaCheck, s.giteaLabels)
	s.handle("POST "+repo+"/labels", giteaCheck, s.giteaNewLabel)
	s.handle("POST "+repo+"/issues/{number}/labels", giteaCheck, s.giteaLabel)
}

func giteaError(r *http.Request, code int, message string) (int, any) {
	return code, object{"message": message, "url": "http://" + r.Host + "/api/swagger"}
}

// giteaCheck does what Gitea does before every call.
func giteaCheck(s *Server, _ http.ResponseWriter, r *http.Request) (*Repository, User, int, any) {
	u, ok := s.user(r, "token", "Bearer")
	repo := s.repository(ownerAndName(r), u)
	code, refusal := 0, any(nil)
	switch write := r.Method != http.MethodGet; {
	case !ok && !anonymous(r, repo):
		code, refusal = giteaError(r, http.StatusUnauthorized, "token is required")
	case repo == nil:
		code, refusal = giteaError(r, http.StatusNotFound, "The target couldn't be found.")
	case write && !u.Write:
		code, refusal = giteaError(r, http.StatusForbidden, "token does not have at least one of required scope(s): [write:repository]")
	case write && repo.Archived:
		code, refusal = giteaError(r, http.StatusLocked, repo.Path+" is archived")
	}
	return repo, u, code, refusal
}

func (s *Server) giteaRepo(r *http.Request, repo *Repository) object {
	return object{
		"id": repo.id, "name": repo.name(), "full_name": repo.Path, "owner": object{"id": 1, "login": repo.owner()},
		"html_url": "http://" + r.Host + s.cfg.Prefix + "/" + repo.Path, "default_branch": repo.DefaultBranch, "archived": repo.Archived,
	}
}

// giteaRepository is "Get a repository", GET /repos/{owner}/{repo}.
func (s *Server) giteaRepository(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
	return http.StatusOK, s.giteaRepo(r, repo)
}

// giteaBranches is "List a repository's branches", GET
// /repos/{owner}/{repo}/branches. It returns only protected branches.
func (s *Server) giteaBranches(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
	return list(s, w, r, repo.Protected, "limit", 30, 50, func(name string) object {
		hash, _ := repo.Branch(name)
		return object{"name": name, "commit": object{"id": hash}, "protected": true}
	})
}

// giteaBranch is "Retrieve a specific branch", GET
// /repos/{owner}/{repo}/branches/{branch}.
func (s *Server) giteaBranch(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
	hash, ok := repo.Branch(r.PathValue("branch"))
	if !ok {
		return giteaError(r, http.StatusNotFound, "The target couldn't be found.")
	}
	return http.StatusOK, object{"name": r.PathValue("branch"), "commit": object{"id": hash}, "protected": false}
}

// giteaProtections is "List branch protections for a repository", GET
// /repos/{owner}/{repo}/branch_protections, for administrators.
func (s *Server) giteaProtections(w http.ResponseWriter, r *http.Request, repo *Repository, u User) (int, any) {
	if !u.Admin {
		return giteaError(r, http.StatusForbidden, "user should be an owner or a collaborator with admin write of a repository")
	}
	list := []object{}
	for _, n := range repo.Protected {
		list = append(list, object{"branch_name": n, "rule_name": n, "enable_push": false})
	}
	return http.StatusOK, list
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
func (s *Server) giteaList(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
	return list(s, w, r, s.open(repo), "limit", 30, 50, func(p *Pull) object { return s.giteaPull(r, repo, p) })
}

// wip matches the prefix of a title that makes a request a draft: the default of
// [repository.pull-request] WORK_IN_PROGRESS_PREFIXES.
var wip = regexp.MustCompile(`(?i)^(?:wip:|\[wip\])\s*`)

// giteaCreate is "Create a pull request", POST /repos/{owner}/{repo}/pulls.
func (s *Server) giteaCreate(w http.ResponseWriter, r *http.Request, repo *Repository, u User) (int, any) {
	var in struct{ Title, Body, Head, Base string }
	if read(w, r, &in) != nil || in.Title == "" {
		return giteaError(r, http.StatusUnprocessableEntity, "[Title]: Required")
	}
	_, source := repo.Branch(in.Head)
	_, target := repo.Branch(in.Base)
	if !source || !target {
		return giteaError(r, http.StatusNotFound, "The target couldn't be found.")
	}
	if p := s.duplicate(repo, in.Head, in.Base); p != nil {
		return giteaError(r, http.StatusConflict, fmt.Sprintf(
			"pull request already exists for these targets [id: %d, issue_id: %d, head_repo_id: %d, base_repo_id: %d, head_branch: %s, base_branch: %s]",
			p.Number, p.Number, repo.id, repo.id, in.Head, in.Base))
	}
	p := &Pull{Repository: repo.Path, Source: in.Head, Target: in.Base, Body: in.Body, Author: u.Login}
	p.setTitle(wip, in.Title)
	s.add(p)
	return http.StatusCreated, s.giteaPull(r, repo, p)
}

// giteaUpdate is "Update a pull request", PATCH
// /repos/{owner}/{repo}/pulls/{index}.
func (s *Server) giteaUpdate(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
	var in struct {
		Title string
		Body  *string
	}
	p := s.pull(repo, r.PathValue("number"))
	if p == nil {
		return giteaError(r, http.StatusNotFound, "The target couldn't be found.")
	}
	if read(w, r, &in) != nil {
		return giteaError(r, http.StatusUnprocessableEntity, "the body cannot be read")
	}
	if in.Title != "" {
		p.setTitle(wip, in.Title)
	}
	if in.Body != nil {
		p.Body = *in.Body
	}
	return http.StatusCreated, s.giteaPull(r, repo, p)
}

// giteaLabels is "Get all of a repository's labels", GET
// /repos/{owner}/{repo}/labels.
func (s *Server) giteaLabels(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
	return list(s, w, r, s.labels[repo.Path], "limit", 30, 50, func(name string) object {
		id, _ := s.labelID(repo, name)
		return object{"id": id, "name": name, "color": "ededed"}
	})
}

// giteaNewLabel is "Create a label", POST /repos/{owner}/{repo}/labels.
func (s *Server) giteaNewLabel(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
	var in struct{ Name, Color string }
	if read(w, r, &in) != nil || in.Name == "" || in.Color == "" {
		return giteaError(r, http.StatusUnprocessableEntity, "[Name]: Required")
	}
	s.labels[repo.Path] = append(s.labels[repo.Path], in.Name)
	return http.StatusCreated, object{"id": len(s.labels[repo.Path]), "name": in.Name, "color": in.Color}
}

// giteaLabel is "Add a label to an issue", POST
// /repos/{owner}/{repo}/issues/{index}/labels, with the labels' ids.
func (s *Server) giteaLabel(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
	var in struct{ Labels []any }
	p := s.pull(repo, r.PathValue("number"))
	if p == nil || read(w, r, &in) != nil {
		return giteaError(r, http.StatusNotFound, "The target couldn't be found.")
	}
	for _, v := range in.Labels {
		n, ok := v.(float64)
		if !ok || int(n) < 1 || int(n) > len(s.labels[repo.Path]) {
			return giteaError(r, http.StatusUnprocessableEntity, "label does not exist [label_id: "+strconv.Itoa(int(n))+"]")
		}
		s.label(repo, p, []string{s.labels[repo.Path][int(n)-1]})
	}
	return http.StatusOK, s.giteaPull(r, repo, p)["labels"]
}

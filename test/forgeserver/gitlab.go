package forgeserver

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// gitlab serves GitLab's REST API. A project's id is its path, with %2F for /.
// https://docs.gitlab.com/api/rest/
func (s *Server) gitlab() {
	p := s.cfg.Prefix + "/api/v4"
	s.mux.HandleFunc(p+"/version", s.gitlabVersion)
	project := p + "/projects/{id}"
	s.mux.HandleFunc("GET "+project, s.onGitLab(s.gitlabProject))
	s.mux.HandleFunc("GET "+project+"/protected_branches", s.onGitLab(s.gitlabProtected))
	s.mux.HandleFunc("GET "+project+"/repository/branches/{branch}", s.onGitLab(s.gitlabBranch))
	s.mux.HandleFunc("GET "+project+"/merge_requests", s.onGitLab(s.gitlabList))
	s.mux.HandleFunc("POST "+project+"/merge_requests", s.onGitLab(s.gitlabCreate))
	s.mux.HandleFunc("PUT "+project+"/merge_requests/{number}", s.onGitLab(s.gitlabUpdate))
}

// gitlabVersion is "Get the version", GET /version, as it answers to who has no
// token.
func (s *Server) gitlabVersion(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Gitlab-Meta", `{"correlation_id":"1","version":"1"}`)
	answer(w, http.StatusUnauthorized, object{"message": "401 Unauthorized"})
}

// onGitLab does what GitLab does before every call.
func (s *Server) onGitLab(next onRepository) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Gitlab-Meta", `{"correlation_id":"1","version":"1"}`)
		w.Header().Set("RateLimit-Limit", "600")
		w.Header().Set("RateLimit-Remaining", "599")
		u, ok := s.user(r, "PRIVATE-TOKEN", "Bearer")
		if !ok {
			answer(w, http.StatusUnauthorized, object{"message": "401 Unauthorized"})
			return
		}
		repo := s.repository(r.PathValue("id"), u)
		if repo == nil {
			answer(w, http.StatusNotFound, object{"message": "404 Project Not Found"})
			return
		}
		if r.Method != http.MethodGet && (!u.Write || repo.Archived) {
			answer(w, http.StatusForbidden, object{"message": "403 Forbidden"})
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		next(w, r, repo, u)
	}
}

// gitlabProject is "Retrieve a project", GET /projects/:id.
func (s *Server) gitlabProject(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) {
	answer(w, http.StatusOK, object{
		"id": repo.id, "path": repo.name(), "path_with_namespace": repo.Path, "default_branch": repo.DefaultBranch,
		"web_url": "http://" + r.Host + s.cfg.Prefix + "/" + repo.Path, "archived": repo.Archived, "visibility": "private",
	})
}

// gitlabProtected is "List protected branches", GET
// /projects/:id/protected_branches. Who may not push may not see them.
func (s *Server) gitlabProtected(w http.ResponseWriter, r *http.Request, repo *Repository, u User) {
	if !u.Write {
		answer(w, http.StatusForbidden, object{"message": "403 Forbidden"})
		return
	}
	names, next := page(r, repo.Protected, "per_page", 20, 100)
	list := []object{}
	for i, n := range names {
		list = append(list, object{
			"id": i + 1, "name": n, "allow_force_push": false,
			"push_access_levels":  []object{{"access_level": 40, "access_level_description": "Maintainers"}},
			"merge_access_levels": []object{{"access_level": 40, "access_level_description": "Maintainers"}},
		})
	}
	s.gitlabPage(w, r, next)
	answer(w, http.StatusOK, list)
}

// gitlabPage tells of the next page as GitLab does, with headers of its own.
func (s *Server) gitlabPage(w http.ResponseWriter, r *http.Request, next int) {
	link(w, r, next)
	w.Header().Set("X-Next-Page", "")
	if next > 0 {
		w.Header().Set("X-Next-Page", strconv.Itoa(next))
	}
}

// gitlabBranch is "Get a single repository branch", GET
// /projects/:id/repository/branches/:branch.
func (s *Server) gitlabBranch(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) {
	hash, ok := repo.Branch(r.PathValue("branch"))
	if !ok {
		answer(w, http.StatusNotFound, object{"message": "404 Branch Not Found"})
		return
	}
	answer(w, http.StatusOK, object{"name": r.PathValue("branch"), "protected": false, "commit": object{"id": hash, "short_id": hash[:8]}})
}

func (s *Server) gitlabRequest(r *http.Request, repo *Repository, p *Pull) object {
	from := repo.id
	if p.Fork {
		from += 1000
	}
	state := map[string]string{"open": "opened"}[p.State]
	if state == "" {
		state = p.State
	}
	title := p.Title
	if p.Draft {
		title = "Draft: " + title
	}
	hash, _ := repo.Branch(p.Source)
	labels := append([]string{}, p.Labels...)
	return object{
		"id": 100 + p.Number, "iid": p.Number, "project_id": repo.id, "source_project_id": from, "target_project_id": repo.id,
		"source_branch": p.Source, "target_branch": p.Target, "title": title, "description": p.Body, "draft": p.Draft,
		"state": state, "labels": labels, "sha": hash, "author": object{"id": 1, "username": p.Author},
		"web_url": fmt.Sprintf("http://%s%s/%s/-/merge_requests/%d", r.Host, s.cfg.Prefix, repo.Path, p.Number),
	}
}

// gitlabList is "List project merge requests", GET /projects/:id/merge_requests.
func (s *Server) gitlabList(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) {
	branch := r.URL.Query().Get("source_branch")
	var all []*Pull
	for _, p := range s.open(repo) {
		if branch == "" || p.Source == branch {
			all = append(all, p)
		}
	}
	pulls, next := page(r, all, "per_page", 20, 100)
	list := []object{}
	for _, p := range pulls {
		list = append(list, s.gitlabRequest(r, repo, p))
	}
	s.gitlabPage(w, r, next)
	answer(w, http.StatusOK, list)
}

// undraft splits the title of a draft, which is one by its beginning.
var undraft = regexp.MustCompile(`(?i)^(?:draft:|\[draft\]|\(draft\))\s*`)

// gitlabCreate is "Create a merge request", POST /projects/:id/merge_requests.
func (s *Server) gitlabCreate(w http.ResponseWriter, r *http.Request, repo *Repository, u User) {
	var in struct {
		Title, Description string
		Source             string `json:"source_branch"`
		Target             string `json:"target_branch"`
		Labels             string
	}
	if read(w, r, &in) != nil || in.Title == "" || in.Source == "" || in.Target == "" {
		answer(w, http.StatusBadRequest, object{"error": "title is missing, source_branch is missing, target_branch is missing"})
		return
	}
	_, source := repo.Branch(in.Source)
	_, target := repo.Branch(in.Target)
	switch {
	case in.Source == in.Target:
		answer(w, http.StatusUnprocessableEntity, object{"message": []string{"You can't use same project/branch for source and target"}})
		return
	case !source:
		answer(w, http.StatusBadRequest, object{"message": object{"source_branch": []string{`"` + in.Source + `" does not exist`}}})
		return
	case !target:
		answer(w, http.StatusBadRequest, object{"message": object{"target_branch": []string{`"` + in.Target + `" does not exist`}}})
		return
	}
	if p := s.duplicate(repo, in.Source, in.Target); p != nil {
		answer(w, http.StatusConflict, object{"message": []string{fmt.Sprintf("Another open merge request already exists for this source branch: !%d", p.Number)}})
		return
	}
	p := &Pull{Repository: repo.Path, Source: in.Source, Target: in.Target, Body: in.Description, Author: u.Login}
	p.Title = undraft.ReplaceAllString(in.Title, "")
	p.Draft = p.Title != in.Title
	s.add(p)
	if in.Labels != "" {
		s.label(repo, p, strings.Split(in.Labels, ","))
	}
	answer(w, http.StatusCreated, s.gitlabRequest(r, repo, p))
}

// gitlabUpdate is "Update a merge request", PUT
// /projects/:id/merge_requests/:merge_request_iid.
func (s *Server) gitlabUpdate(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) {
	var in struct {
		Title, Description *string
		Add                string `json:"add_labels"`
	}
	p := s.pull(repo, r.PathValue("number"))
	if p == nil {
		answer(w, http.StatusNotFound, object{"message": "404 Not found"})
		return
	}
	if read(w, r, &in) != nil || in.Title == nil && in.Description == nil && in.Add == "" {
		answer(w, http.StatusBadRequest, object{"error": "assignee_id, description, title, ... are missing, at least one parameter must be provided"})
		return
	}
	if in.Title != nil {
		p.Title = undraft.ReplaceAllString(*in.Title, "")
		p.Draft = p.Title != *in.Title
	}
	if in.Description != nil {
		p.Body = *in.Description
	}
	if in.Add != "" {
		s.label(repo, p, strings.Split(in.Add, ","))
	}
	answer(w, http.StatusOK, s.gitlabRequest(r, repo, p))
}

package forgeserver

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// gitlab serves GitLab's REST API. A project's id is its path, with %2F for /.
// https://docs.gitlab.com/api/rest/
func (s *Server) gitlab() {
	p := s.cfg.Prefix + "/api/v4"
	s.mux.HandleFunc(p+"/version", s.gitlabVersion)
	project := p + "/projects/{id}"
	s.gitlabReviews(p)
	s.reads(project, "/notes", "/merge_requests", gitlabCheck, s.gitlabRequest)
	s.handle("GET "+project, gitlabCheck, s.gitlabProject)
	s.handle("GET "+project+"/protected_branches", gitlabCheck, s.gitlabProtected)
	s.handle("GET "+project+"/repository/branches/{branch}", gitlabCheck, s.gitlabBranch)
	s.handle("GET "+project+"/merge_requests", gitlabCheck, s.gitlabList)
	s.handle("POST "+project+"/merge_requests", gitlabCheck, s.gitlabCreate)
	s.handle("PUT "+project+"/merge_requests/{number}", gitlabCheck, s.gitlabUpdate)
}

// gitlabVersion is "Get the version", GET /version. It always answers as if the request
// had no token.
func (s *Server) gitlabVersion(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Gitlab-Meta", `{"correlation_id":"1","version":"1"}`)
	answer(w, http.StatusUnauthorized, object{"message": "401 Unauthorized"})
}

// gitlabCheck does what GitLab does before every call.
func gitlabCheck(s *Server, w http.ResponseWriter, r *http.Request) (*Repository, User, int, any) {
	w.Header().Set("X-Gitlab-Meta", `{"correlation_id":"1","version":"1"}`)
	w.Header().Set("RateLimit-Limit", "600")
	w.Header().Set("RateLimit-Remaining", "599")
	u, ok := s.user(r, "PRIVATE-TOKEN", "Bearer")
	repo := s.repository(r.PathValue("id"), u)
	switch {
	case !ok && !anonymous(r, repo):
		return nil, u, http.StatusUnauthorized, object{"message": "401 Unauthorized"}
	case repo == nil:
		return nil, u, http.StatusNotFound, object{"message": "404 Project Not Found"}
	case r.Method != http.MethodGet && (!u.Write || repo.Archived):
		return nil, u, http.StatusForbidden, object{"message": "403 Forbidden"}
	}
	return repo, u, 0, nil
}

// gitlabProject is "Retrieve a project", GET /projects/:id.
func (s *Server) gitlabProject(w http.ResponseWriter, r *http.Request, repo *Repository, u User) (int, any) {
	level := 20 // Reporter
	if u.Write {
		level = 30 // Developer
	}
	return http.StatusOK, object{
		"permissions": object{"project_access": object{"access_level": level}, "group_access": nil},
		"id":          repo.id, "path": repo.name(), "path_with_namespace": repo.Path, "default_branch": repo.DefaultBranch,
		"web_url": "http://" + r.Host + s.cfg.Prefix + "/" + repo.Path, "archived": repo.Archived, "visibility": "private",
	}
}

// gitlabProtected is "List protected branches", GET
// /projects/:id/protected_branches. A user who may not push may not see them.
func (s *Server) gitlabProtected(w http.ResponseWriter, r *http.Request, repo *Repository, u User) (int, any) {
	if !u.Write {
		return http.StatusForbidden, object{"message": "403 Forbidden"}
	}
	return list(s, w, r, repo.Protected, "per_page", 20, 100, func(name string) object {
		return object{
			"id": slices.Index(repo.Protected, name) + 1, "name": name, "allow_force_push": false,
			"push_access_levels":  []object{{"access_level": 40, "access_level_description": "Maintainers"}},
			"merge_access_levels": []object{{"access_level": 40, "access_level_description": "Maintainers"}},
		}
	})
}

// gitlabBranch is "Get a single repository branch", GET
// /projects/:id/repository/branches/:branch.
func (s *Server) gitlabBranch(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
	hash, ok := repo.Branch(r.PathValue("branch"))
	if !ok {
		return http.StatusNotFound, object{"message": "404 Branch Not Found"}
	}
	return http.StatusOK, object{"name": r.PathValue("branch"), "protected": false, "commit": object{"id": hash, "short_id": hash[:8]}}
}

func (s *Server) gitlabRequest(r *http.Request, repo *Repository, p *Pull) object {
	from := repo.id
	if p.Fork {
		from += 1000
	}
	state := map[string]string{"open": "opened"}[p.State]
	state = cmp.Or(state, p.State)
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
func (s *Server) gitlabList(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
	branch := r.URL.Query().Get("source_branch")
	var all []*Pull
	for _, p := range s.open(repo) {
		if branch == "" || p.Source == branch {
			all = append(all, p)
		}
	}
	return list(s, w, r, all, "per_page", 20, 100, func(p *Pull) object { return s.gitlabRequest(r, repo, p) })
}

// undraft matches the prefix of a title that makes a request a draft.
var undraft = regexp.MustCompile(`(?i)^(?:draft:|\[draft\]|\(draft\))\s*`)

// gitlabCreate is "Create a merge request", POST /projects/:id/merge_requests.
func (s *Server) gitlabCreate(w http.ResponseWriter, r *http.Request, repo *Repository, u User) (int, any) {
	var in struct {
		Title, Description string
		Source             string `json:"source_branch"`
		Target             string `json:"target_branch"`
		Labels             string
	}
	if read(w, r, &in) != nil || in.Title == "" || in.Source == "" || in.Target == "" {
		return http.StatusBadRequest, object{"error": "title is missing, source_branch is missing, target_branch is missing"}
	}
	_, source := repo.Branch(in.Source)
	_, target := repo.Branch(in.Target)
	switch {
	case in.Source == in.Target:
		return http.StatusUnprocessableEntity, object{"message": []string{"You can't use same project/branch for source and target"}}
	case !source:
		return http.StatusBadRequest, object{"message": object{"source_branch": []string{`"` + in.Source + `" does not exist`}}}
	case !target:
		return http.StatusBadRequest, object{"message": object{"target_branch": []string{`"` + in.Target + `" does not exist`}}}
	}
	if p := s.duplicate(repo, in.Source, in.Target); p != nil {
		return http.StatusConflict, object{"message": []string{fmt.Sprintf("Another open merge request already exists for this source branch: !%d", p.Number)}}
	}
	p := &Pull{Repository: repo.Path, Source: in.Source, Target: in.Target, Body: in.Description, Author: u.Login}
	p.setTitle(undraft, in.Title)
	s.add(p)
	if in.Labels != "" {
		s.label(repo, p, strings.Split(in.Labels, ","))
	}
	return http.StatusCreated, s.gitlabRequest(r, repo, p)
}

// gitlabUpdate is "Update a merge request", PUT
// /projects/:id/merge_requests/:merge_request_iid.
func (s *Server) gitlabUpdate(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
	var in struct {
		Title, Description *string
		Add                string `json:"add_labels"`
	}
	p := s.pull(repo, r.PathValue("number"))
	if p == nil {
		return http.StatusNotFound, object{"message": "404 Not found"}
	}
	if read(w, r, &in) != nil || in.Title == nil && in.Description == nil && in.Add == "" {
		return http.StatusBadRequest, object{"error": "assignee_id, description, title, ... are missing, at least one parameter must be provided"}
	}
	if in.Title != nil {
		p.setTitle(undraft, *in.Title)
	}
	if in.Description != nil {
		p.Body = *in.Description
	}
	if in.Add != "" {
		s.label(repo, p, strings.Split(in.Add, ","))
	}
	return http.StatusOK, s.gitlabRequest(r, repo, p)
}

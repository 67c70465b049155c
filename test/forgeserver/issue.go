package forgeserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// Issue is an issue of the server.
type Issue struct {
	Repository          string
	Number              int
	Title, Body, Author string
	Comments            []IssueComment
}

// IssueComment is a comment of an issue. System comments are written by the forge itself.
type IssueComment struct {
	Author, Body string
	System       bool
}

// AddIssue adds an issue as if a person had opened it.
func (s *Server) AddIssue(i Issue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issues = append(s.issues, i)
}

// IssueComments returns the comments of an issue.
func (s *Server) IssueComments(repository string, number int) []IssueComment {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.issues {
		if i.Repository == repository && i.Number == number {
			return append([]IssueComment(nil), i.Comments...)
		}
	}
	return nil
}

// issue returns an issue as all kinds answer, and its comments; nil if there is none. The caller holds the lock.
func (s *Server) issue(r *http.Request, repo *Repository) (object, []IssueComment) {
	for _, i := range s.issues {
		if i.Repository != repo.Path || strconv.Itoa(i.Number) != r.PathValue("number") {
			continue
		}
		if s.cfg.Kind == GitLab {
			return object{
				"id": 500 + i.Number, "iid": i.Number, "title": i.Title, "description": i.Body, "state": "opened", "author": object{"username": i.Author},
				"web_url": fmt.Sprintf("http://%s%s/%s/-/issues/%d", r.Host, s.cfg.Prefix, repo.Path, i.Number),
			}, i.Comments
		}
		return object{
			"id": 500 + i.Number, "number": i.Number, "title": i.Title, "body": i.Body, "state": "open", "user": object{"login": i.Author},
			"html_url": fmt.Sprintf("http://%s%s/%s/issues/%d", r.Host, s.cfg.Prefix, repo.Path, i.Number),
		}, i.Comments
	}
	return nil, nil
}

// reads registers the calls that read one issue, its comments and one merge request.
func (s *Server) reads(repository, comments, pulls string, before check, pull func(*http.Request, *Repository, *Pull) object) {
	missing := func() (int, any) { return http.StatusNotFound, object{"message": "Not Found"} }
	s.handle("GET "+repository+"/issues/{number}", before, func(_ http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
		if i, _ := s.issue(r, repo); i != nil {
			return http.StatusOK, i
		}
		return missing()
	})
	s.handle("GET "+repository+"/issues/{number}"+comments, before, func(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
		i, all := s.issue(r, repo)
		if i == nil && s.cfg.Kind != GitLab && s.pull(repo, r.PathValue("number")) != nil { // a pull request is an issue too
			return list(s, w, r, s.commentsOf(repo, r.PathValue("number"), "comment"), "per_page", 30, 100, s.pullComment(repo))
		}
		if i == nil {
			return missing()
		}
		row := func(c IssueComment) object {
			by := object{"login": c.Author, "username": c.Author}
			return object{"id": 1, "body": c.Body, "user": by, "author": by, "system": c.System}
		}
		if s.cfg.Kind == Gitea { // all at once
			out := []object{}
			for _, c := range all {
				out = append(out, row(c))
			}
			return http.StatusOK, out
		}
		return list(s, w, r, all, "per_page", 20, 100, row)
	})
	s.handle("POST "+repository+"/issues/{number}"+comments, before, func(_ http.ResponseWriter, r *http.Request, repo *Repository, u User) (int, any) {
		var in struct{ Body string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Body == "" {
			return http.StatusUnprocessableEntity, object{"message": "Validation Failed"}
		}
		if !u.Write {
			return http.StatusForbidden, object{"message": "Forbidden"}
		}
		for i := range s.issues {
			if at := &s.issues[i]; at.Repository == repo.Path && strconv.Itoa(at.Number) == r.PathValue("number") {
				at.Comments = append(at.Comments, IssueComment{Author: u.Login, Body: in.Body})
				return http.StatusCreated, object{"id": len(at.Comments), "body": in.Body}
			}
		}
		return missing()
	})
	s.handle("GET "+repository+pulls+"/{number}", before, func(_ http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
		if p := s.pull(repo, r.PathValue("number")); p != nil {
			o := pull(r, repo, p)
			if s.cfg.Kind == GitHub {
				o["merged"] = p.State == "merged"
			}
			return http.StatusOK, o
		}
		return missing()
	})
}

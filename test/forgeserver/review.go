package forgeserver

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"
)

// Person is somebody who comments. Somebody else may only read.
type Person struct {
	Login string
	// Permission is "read", "write" or "admin".
	Permission string
	// Association is GitHub's author_association (default: COLLABORATOR for write and admin, otherwise NONE).
	Association string
	Bot         bool
}

// Comment is a comment on a merge request.
type Comment struct {
	Repository string
	// Number is that of the merge request.
	Number int
	Author string
	Body   string
	// Path and Line are set for a comment on a line.
	Path string
	Line int
	// Review is the state of a review whose text this is: "APPROVED", "COMMENT" or "CHANGES"; empty for a comment.
	Review string
	// System comments are written by GitLab itself.
	System bool

	id int
}

// Check is a check of a commit.
type Check struct {
	Repository, Commit, Name string
	// State is "success", "failure" or "pending".
	State string
	// Status makes it a status of a service elsewhere at GitHub and GitLab, and not a check run or a job.
	Status bool
	URL    string
	// Text is its report, its description or its log.
	Text string
}

// Comment adds a comment as if a person had written it.
func (s *Server) Comment(c Comment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.id = len(s.comments) + 1
	s.comments = append(s.comments, c)
}

// Check adds a check. One with the same commit and name is replaced.
func (s *Server) Check(c Check) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, have := range s.checks {
		if have.Repository == c.Repository && have.Commit == c.Commit && have.Name == c.Name {
			s.checks[i] = c
			return
		}
	}
	s.checks = append(s.checks, c)
}

// accountID is the id of an account. The account of Gitea's own actions has none above 0.
func accountID(login string) int {
	if login == "gitea-actions" {
		return -2
	}
	h := fnv.New32a()
	h.Write([]byte(login))
	return int(h.Sum32()>>8) + 1
}

// person is what the server knows of somebody in a repository: of a token's user, or of one of its people.
func (s *Server) person(repo *Repository, login string) Person {
	for _, p := range repo.People {
		if p.Login == login {
			return p
		}
	}
	p := Person{Login: login, Permission: "read"}
	for _, u := range s.cfg.Users {
		if u.Login == login && u.Write {
			p.Permission = "write"
		}
	}
	return p
}

func (p Person) writes() bool { return p.Permission == "write" || p.Permission == "admin" }

// commentsOf are the comments of a merge request of one of the forms "comment", "line" and "review"; all for "". The caller holds the
// lock.
func (s *Server) commentsOf(repo *Repository, number, form string) (out []Comment) {
	for _, c := range s.comments {
		is := "comment"
		if c.Path != "" {
			is = "line"
		} else if c.Review != "" {
			is = "review"
		}
		if c.Repository == repo.Path && strconv.Itoa(c.Number) == number && (form == "" || form == is) {
			out = append(out, c)
		}
	}
	return out
}

// checksOf are the checks of a commit. The caller holds the lock.
func (s *Server) checksOf(repo *Repository, commit string, has func(Check) bool) (out []Check) {
	for _, c := range s.checks {
		if c.Repository == repo.Path && c.Commit == commit && has(c) {
			out = append(out, c)
		}
	}
	return out
}

// pullUser is the user of a comment at GitHub and Gitea.
func (s *Server) pullUser(repo *Repository, login string) object {
	o := object{"id": accountID(login), "login": login}
	if s.cfg.Kind == GitHub {
		o["type"] = "User"
		if s.person(repo, login).Bot {
			o["type"] = "Bot"
		}
	}
	return o
}

// pullComment is a comment or a review of a pull request at GitHub and Gitea.
func (s *Server) pullComment(repo *Repository) func(c Comment) object {
	return func(c Comment) object {
		o := object{"id": c.id, "body": c.Body, "user": s.pullUser(repo, c.Author)}
		p := s.person(repo, c.Author)
		if s.cfg.Kind == GitHub {
			usual := "NONE"
			if p.writes() {
				usual = "COLLABORATOR"
			}
			o["author_association"] = cmp.Or(p.Association, usual)
		}
		if c.Path != "" {
			o["path"], o["line"], o["original_line"], o["position"] = c.Path, c.Line, c.Line, c.Line
			if s.cfg.Kind == GitHub {
				o["line"] = nil // the line was changed since
				o["position"] = nil
			}
		}
		if c.Review != "" {
			o["state"] = c.Review
			switch {
			case c.Review == "CHANGES" && s.cfg.Kind == GitHub:
				o["state"] = "CHANGES_REQUESTED"
			case c.Review == "CHANGES":
				o["state"] = "REQUEST_CHANGES"
			case c.Review == "COMMENT" && s.cfg.Kind == GitHub:
				o["state"] = "COMMENTED"
			}
		}
		return o
	}
}

// self serves GET /user.
func (s *Server) self(pattern string, forms ...string) {
	s.mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
		u, ok := s.user(r, forms...)
		if !ok {
			answer(w, http.StatusUnauthorized, object{"message": "Bad credentials"})
			return
		}
		if u.permissions != nil { // an installation is no user
			code, v := githubError(http.StatusForbidden, "Resource not accessible by integration")
			answer(w, code, v)
			return
		}
		answer(w, http.StatusOK, object{"id": accountID(u.Login), "login": u.Login, "username": u.Login})
	})
}

// pullReviews registers the calls that GitHub and Gitea have in common.
func (s *Server) pullReviews(api string, before check) {
	repo := api + "/repos/{owner}/{name}"
	s.self(api+"/user", "Bearer", "token")
	// "Get repository permissions for a user". GitHub wants a token with push access, Gitea one that administers the repository.
	s.handle("GET "+repo+"/collaborators/{login}/permission", before, func(_ http.ResponseWriter, r *http.Request, repo *Repository, u User) (int, any) {
		if s.cfg.Kind == Gitea && !u.Admin && u.Login != r.PathValue("login") || !u.Write {
			return http.StatusForbidden, object{"message": "Only admins can query all permissions"}
		}
		login := r.PathValue("login")
		p := s.person(repo, login)
		if s.cfg.Kind == Gitea && strings.EqualFold(login, repo.owner()) {
			p.Permission = "owner"
		}
		return http.StatusOK, object{"permission": p.Permission, "role_name": p.Permission, "user": s.pullUser(repo, login)}
	})
	// "List reviews for a pull request".
	size, normal, most := "per_page", 30, 100
	if s.cfg.Kind == Gitea {
		size, normal, most = "limit", 30, 50
	}
	s.handle("GET "+repo+"/pulls/{number}/reviews", before, func(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
		all := s.commentsOf(repo, r.PathValue("number"), "review")
		if s.cfg.Kind == Gitea { // a comment on a line is part of a review without a text
			for _, c := range s.commentsOf(repo, r.PathValue("number"), "line") {
				all = append(all, Comment{Author: c.Author, Review: "COMMENT", id: -c.id})
			}
		}
		return list(s, w, r, all, size, normal, most, func(c Comment) object {
			o := s.pullComment(repo)(c)
			if c.id < 0 {
				o["id"], o["comments_count"] = 100_000-c.id, 1
			}
			return o
		})
	})
	// "Get the combined status for a specific reference".
	s.handle("GET "+repo+"/commits/{sha}/status", before, func(_ http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
		out := []object{}
		for _, c := range s.checksOf(repo, r.PathValue("sha"), func(c Check) bool { return c.Status || s.cfg.Kind == Gitea }) {
			o := object{"context": c.Name, "target_url": c.URL, "description": c.Text}
			o[map[bool]string{true: "status", false: "state"}[s.cfg.Kind == Gitea]] = c.State
			out = append(out, o)
		}
		return http.StatusOK, object{"state": "pending", "statuses": out}
	})
	if s.cfg.Kind == Gitea {
		// "Get a specific review's comments for a pull request".
		s.handle("GET "+repo+"/pulls/{number}/reviews/{review}/comments", before, func(_ http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
			out := []object{}
			for _, c := range s.commentsOf(repo, r.PathValue("number"), "line") {
				if strconv.Itoa(100_000+c.id) == r.PathValue("review") {
					out = append(out, s.pullComment(repo)(c))
				}
			}
			return http.StatusOK, out
		})
		return
	}
	// "List review comments on a pull request".
	s.handle("GET "+repo+"/pulls/{number}/comments", before, func(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
		return list(s, w, r, s.commentsOf(repo, r.PathValue("number"), "line"), size, normal, most, s.pullComment(repo))
	})
	// "List check runs for a Git reference".
	s.handle("GET "+repo+"/commits/{sha}/check-runs", before, func(_ http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
		out := []object{}
		for _, c := range s.checksOf(repo, r.PathValue("sha"), func(c Check) bool { return !c.Status }) {
			o := object{"name": c.Name, "status": "completed", "conclusion": c.State, "html_url": c.URL, "output": object{"title": nil, "summary": c.Text, "text": nil}}
			if c.State == "pending" {
				o["status"], o["conclusion"] = "in_progress", nil
			}
			out = append(out, o)
		}
		return http.StatusOK, object{"total_count": len(out), "check_runs": out}
	})
}

// gitlabReviews registers GitLab's calls.
func (s *Server) gitlabReviews(api string) {
	project := api + "/projects/{id}"
	s.self(api+"/user", "PRIVATE-TOKEN", "Bearer")
	missing := func() (int, any) { return http.StatusNotFound, object{"message": "404 Not found"} }
	// "List all merge request notes".
	s.handle("GET "+project+"/merge_requests/{number}/notes", gitlabCheck, func(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
		return list(s, w, r, s.commentsOf(repo, r.PathValue("number"), ""), "per_page", 20, 100, func(c Comment) object {
			o := object{"id": c.id, "body": c.Body, "system": c.System, "author": object{"id": accountID(c.Author), "username": c.Author}}
			if c.Path != "" {
				o["type"], o["resolvable"], o["resolved"] = "DiffNote", true, false
				o["position"] = object{"position_type": "text", "new_path": c.Path, "old_path": c.Path, "new_line": c.Line, "old_line": nil}
			}
			return o
		})
	})
	// "Get a member of a project, including inherited and invited members".
	s.handle("GET "+project+"/members/all/{user}", gitlabCheck, func(_ http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
		for _, p := range repo.People {
			if strconv.Itoa(accountID(p.Login)) == r.PathValue("user") {
				level := map[string]int{"read": 20, "write": 30, "admin": 40}[p.Permission]
				return http.StatusOK, object{"id": accountID(p.Login), "username": p.Login, "access_level": level}
			}
		}
		return missing()
	})
	// "Retrieve a user".
	s.mux.HandleFunc("GET "+api+"/users/{user}", func(w http.ResponseWriter, r *http.Request) {
		for _, repo := range s.cfg.Repositories {
			for _, p := range repo.People {
				if strconv.Itoa(accountID(p.Login)) == r.PathValue("user") {
					answer(w, http.StatusOK, object{"id": accountID(p.Login), "username": p.Login, "bot": p.Bot})
					return
				}
			}
		}
		answer(w, http.StatusNotFound, object{"message": "404 User Not Found"})
	})
	// "List the statuses of a commit": jobs and statuses of services elsewhere.
	s.handle("GET "+project+"/repository/commits/{sha}/statuses", gitlabCheck, func(w http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
		all := s.checksOf(repo, r.PathValue("sha"), func(Check) bool { return true })
		return list(s, w, r, all, "per_page", 20, 100, func(c Check) object {
			o := object{"id": s.jobID(c), "name": c.Name, "status": c.State, "target_url": c.URL, "allow_failure": false, "description": nil}
			if c.State == "failure" {
				o["status"] = "failed"
			}
			if c.Status {
				o["description"] = c.Text
			}
			return o
		})
	})
	// "Get a log file": text.
	s.handle("GET "+project+"/jobs/{job}/trace", gitlabCheck, func(_ http.ResponseWriter, r *http.Request, repo *Repository, _ User) (int, any) {
		for _, c := range s.checks {
			if fmt.Sprint(s.jobID(c)) == r.PathValue("job") && !c.Status {
				return http.StatusOK, c.Text
			}
		}
		return missing()
	})
}

// jobID is the id of a check. The caller holds the lock.
func (s *Server) jobID(c Check) int {
	for i, have := range s.checks {
		if have == c {
			return i + 1
		}
	}
	return 0
}

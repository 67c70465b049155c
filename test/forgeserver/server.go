package forgeserver

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The kinds of forges.
const (
	GitHub = "github"
	GitLab = "gitlab"
	Gitea  = "gitea"
)

// Config sets up a server.
type Config struct {
	// Kind is the API of the server: GitHub, GitLab or Gitea.
	Kind string
	// Prefix is a prefix of all paths, for example "/gitlab".
	Prefix string
	// Users maps tokens to users.
	Users map[string]User
	// Repositories lists the repositories of the server.
	Repositories []*Repository
	// Apps are the apps of a server of GitHub, and Now its clock; nil means time.Now.
	Apps []*App
	Now  func() time.Time
}

// User is the user of a token.
type User struct {
	Login string
	// Write allows the user to push, and to open and change requests. Admin allows the
	// user to see the rules that protect branches.
	Write, Admin bool
	// Blind users do not see hidden repositories.
	Blind bool

	// permissions and only are those of a token of an installation; nil for others.
	permissions map[string]string
	only        []string
}

// Repository is a repository of the server. Its fields must not change.
type Repository struct {
	// Path is OWNER/NAME, with more slashes for GitLab's groups.
	Path          string
	DefaultBranch string
	// Protected are the names or patterns of protected branches.
	Protected []string
	Archived  bool
	// Hidden repositories do not exist for blind users.
	Hidden bool
	// Public repositories can be read without a token.
	Public bool
	// People are those who comment, with their permissions.
	People []Person
	// NoDrafts refuses drafts, as GitHub does for some plans.
	NoDrafts bool
	// Moved is the previous path of the repository; calls to it are redirected.
	Moved string
	// Dir is a bare git repository. If Branch is set, it is used instead: it returns the
	// hash of a branch.
	Dir    string
	Branch func(name string) (hash string, ok bool)

	id int
}

// owner returns the first part of the path.
func (r *Repository) owner() string {
	o, _, _ := strings.Cut(r.Path, "/")
	return o
}

func (r *Repository) name() string { return r.Path[strings.LastIndex(r.Path, "/")+1:] }

// Pull is a merge request of the server.
type Pull struct {
	Repository     string
	Number         int
	Source, Target string
	Title, Body    string
	Draft          bool
	Labels         []string
	// State is "open", "closed" or "merged".
	State  string
	Author string
	// Fork is true if the source branch is in a fork, whose owner is Author.
	Fork bool
}

// setTitle sets the title without the prefix of a draft, and Draft if it had the prefix.
func (p *Pull) setTitle(draft *regexp.Regexp, title string) {
	p.Title = draft.ReplaceAllString(title, "")
	p.Draft = p.Title != title
}

// Server is a forge.
type Server struct {
	cfg Config
	mux *http.ServeMux

	mu     sync.Mutex
	pulls  []*Pull
	issues []Issue
	// comments and checks are those of merge requests and commits.
	comments []Comment
	checks   []Check
	labels   map[string][]string // repository -> labels; a label's id is its index + 1
	faults   []*Fault
	issued   []issued // by the number in the token
	calls    []Call
}

// Call is a request that the server received.
type Call struct {
	Method, Path string
	// Token is the token that the request used.
	Token string
	// Header is the whole header.
	Header http.Header
}

// New returns a server.
func New(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, mux: http.NewServeMux(), labels: map[string][]string{}}
	for i, r := range cfg.Repositories {
		r.id = i + 1
		r.DefaultBranch = cmp.Or(r.DefaultBranch, "main")
		if r.Branch == nil {
			if r.Dir == "" {
				return nil, fmt.Errorf("the repository %s has neither a directory nor branches", r.Path)
			}
			r.Branch = bareBranch(r.Dir)
		}
	}
	switch cfg.Kind {
	case GitHub:
		s.github()
	case GitLab:
		s.gitlab()
	case Gitea:
		s.gitea()
	default:
		return nil, fmt.Errorf("%q is no kind of forge", cfg.Kind)
	}
	s.mux.HandleFunc(cfg.Prefix+"/", s.git)
	return s, nil
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, _ := credentials(r)
	s.mu.Lock()
	s.calls = append(s.calls, Call{r.Method, r.URL.Path, token, r.Header.Clone()})
	f := s.fault(r)
	s.mu.Unlock()
	if f == nil {
		s.mux.ServeHTTP(w, r)
		return
	}
	f.serve(w, r, s.mux)
}

// Calls returns the requests so far.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.calls...)
}

// Pulls returns copies of all merge requests, in the order of their creation.
func (s *Server) Pulls() []Pull {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Pull, len(s.pulls))
	for i, p := range s.pulls {
		all[i] = *p
		all[i].Labels = append([]string(nil), p.Labels...)
	}
	return all
}

// Add adds a request as if a person had opened it, and returns its number. The default
// state is "open".
func (s *Server) Add(p Pull) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(&p)
}

// Change changes a request as if a person had changed it.
func (s *Server) Change(repository string, number int, change func(*Pull)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pulls {
		if p.Repository == repository && p.Number == number {
			change(p)
		}
	}
}

// add numbers a request and adds it. The caller holds the lock.
func (s *Server) add(p *Pull) int {
	p.State = cmp.Or(p.State, "open")
	p.Number = 1
	for _, other := range s.pulls {
		if other.Repository == p.Repository {
			p.Number++
		}
	}
	s.pulls = append(s.pulls, p)
	return p.Number
}

// open returns a repository's open requests, the newest first. The caller holds the lock.
func (s *Server) open(r *Repository) []*Pull {
	var all []*Pull
	for i := len(s.pulls) - 1; i >= 0; i-- {
		if p := s.pulls[i]; p.Repository == r.Path && p.State == "open" {
			all = append(all, p)
		}
	}
	return all
}

// duplicate returns the open request for the same branches, or nil. The caller holds the
// lock.
func (s *Server) duplicate(r *Repository, source, target string) *Pull {
	for _, p := range s.open(r) {
		if p.Source == source && p.Target == target && !p.Fork {
			return p
		}
	}
	return nil
}

// pull returns the request with that number, or nil. The caller holds the lock.
func (s *Server) pull(r *Repository, number string) *Pull {
	for _, p := range s.pulls {
		if p.Repository == r.Path && strconv.Itoa(p.Number) == number {
			return p
		}
	}
	return nil
}

// labelID returns a label's id, if the label exists. The caller holds the lock.
func (s *Server) labelID(r *Repository, name string) (int, bool) {
	for i, l := range s.labels[r.Path] {
		if strings.EqualFold(l, name) {
			return i + 1, true
		}
	}
	return 0, false
}

// label adds labels to a request, and creates those that do not exist. The caller holds
// the lock.
func (s *Server) label(r *Repository, p *Pull, names []string) {
	for _, name := range names {
		if _, ok := s.labelID(r, name); !ok {
			s.labels[r.Path] = append(s.labels[r.Path], name)
		}
		has := false
		for _, l := range p.Labels {
			has = has || strings.EqualFold(l, name)
		}
		if !has {
			p.Labels = append(p.Labels, name)
		}
	}
}

// repository returns the repository with that path, or nil if the user cannot see it.
func (s *Server) repository(path string, u User) *Repository {
	for _, r := range s.cfg.Repositories {
		if strings.EqualFold(r.Path, path) && !(r.Hidden && u.Blind) && (u.permissions == nil || slices.ContainsFunc(u.only, func(p string) bool { return strings.EqualFold(p, path) })) {
			return r
		}
	}
	return nil
}

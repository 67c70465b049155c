package identity

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"hortus.dev/api"
	"hortus.dev/internal/guest/birth"
)

// Set holds the identities of a guest.
type Set struct {
	cfg   *birth.Config
	list  []*Identity              // the first is the default, unless the template has another
	own   atomic.Pointer[Identity] // that of the template; nil for none
	first atomic.Pointer[Identity]

	mu            sync.Mutex
	defaults, env map[string]string // see SetDefaults and SetEnv
}

// NewSet computes the identities of a configuration.
func NewSet(cfg *birth.Config) (*Set, error) {
	if len(cfg.Identities) == 0 {
		return nil, api.Errorf(api.KindInvalid, "the configuration has no identity")
	}
	s := &Set{cfg: cfg, env: cfg.Env}
	for _, bi := range cfg.Identities {
		if s.Get(bi.Name) != nil {
			return nil, api.Errorf(api.KindInvalid, "the configuration names the identity %q twice", bi.Name)
		}
		s.list = append(s.list, s.identity(bi))
	}
	s.SetDefault(cfg.Default)
	return s, nil
}

// identity computes an identity.
func (s *Set) identity(bi birth.Identity) *Identity {
	id := &Identity{Identity: bi, base: cmp.Or(s.cfg.Dir, s.cfg.Workspace, bi.Home), plain: &Identity{Identity: bi, base: bi.Home}}
	if id.path = s.cfg.Path; bi.UID == 0 {
		id.path = rootPath(s.cfg)
	}
	id.setEnv(s.defaults, s.env)
	return id
}

// all returns the identities.
func (s *Set) all() []*Identity {
	if own := s.own.Load(); own != nil {
		return append(slices.Clip(s.list), own)
	}
	return s.list
}

// SetDefault sets what the sandbox's template says of commands that start later.
func (s *Set) SetDefault(d birth.Default) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own.Store(nil)
	if d.Own != nil && s.cfg.Switch && s.Get(d.Own.Name) == nil {
		own := birth.Identity{Name: d.Own.Name, UID: d.Own.UID, GID: d.Own.GID, Groups: d.Own.Groups, Home: d.Own.Home}
		s.own.Store(s.identity(own))
	}
	first, dir := s.Get(d.User), &d.Dir
	if first == nil {
		first = s.list[0]
	}
	if d.Dir == "" {
		dir = nil
	}
	s.first.Store(first)
	for _, id := range s.all() {
		id.dir.Store(dir)
	}
}

// SetEnv replaces the environment of the sandbox, for commands that start later.
func (s *Set) SetEnv(env map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.env = env
	s.setAll()
}

// SetDefaults replaces the variables of commands that neither the sandbox nor their request
// sets, for commands that start later.
func (s *Set) SetDefaults(defaults map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.defaults = defaults
	s.setAll()
}

func (s *Set) setAll() {
	for _, id := range s.all() {
		id.setEnv(s.defaults, s.env)
	}
}

// find returns the first identity that matches; nil for none.
func (s *Set) find(match func(*Identity) bool) *Identity {
	for _, id := range s.all() {
		if match(id) {
			return id
		}
	}
	return nil
}

// Get returns the identity of that name; nil if there is none.
func (s *Set) Get(name string) *Identity {
	return s.find(func(id *Identity) bool { return id.Name == name })
}

// Default returns the identity of requests that name none.
func (s *Set) Default() *Identity { return s.first.Load() }

// Len returns the number of identities.
func (s *Set) Len() int { return len(s.all()) }

// HasUID reports whether an identity has that uid.
func (s *Set) HasUID(uid uint32) bool {
	return s.find(func(id *Identity) bool { return id.UID == uid }) != nil
}

// UserName returns the name of a uid, or "" if no identity has it.
func (s *Set) UserName(uid uint32) string {
	return s.find(func(id *Identity) bool { return id.UID == uid }).name()
}

// GroupName returns the name of a gid, or "" if no identity has it.
func (s *Set) GroupName(gid uint32) string {
	return s.find(func(id *Identity) bool { return id.GID == gid }).name()
}

func (id *Identity) name() string {
	if id == nil {
		return ""
	}
	return id.Name
}

// Of returns the identity that a request acts as, which its authorization names.
func (s *Set) Of(req *http.Request) (*Identity, error) {
	auth := req.Header.Get("Authorization")
	if auth == "" {
		return s.Named(req, "")
	}
	scheme, value, _ := strings.Cut(auth, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return nil, api.Errorf(api.KindUnauthenticated, "the authorization scheme is not Basic")
	}
	raw, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return nil, api.Errorf(api.KindUnauthenticated, "the authorization is not valid base64")
	}
	name, _, _ := strings.Cut(string(raw), ":")
	return s.Named(req, name)
}

// Named returns the identity of that name for a request; the empty name is the default
// identity.
func (s *Set) Named(req *http.Request, name string) (*Identity, error) {
	if name == "" {
		return s.Default().forRequest(req), nil
	}
	if id := s.Get(name); id != nil {
		return id.forRequest(req), nil
	}
	if why, ok := s.cfg.WhyNot[name]; ok {
		return nil, api.Errorf(api.KindConflict, "%s", why)
	}
	return nil, api.Errorf(api.KindUnauthenticated, "user %q not found in this sandbox", name)
}

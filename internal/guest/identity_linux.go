package guest

import (
	"encoding/base64"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/birth"
)

// identity is a user that commands may run as, with what is computed once.
type identity struct {
	birth.Identity
	env    []string          // of every command, when the request adds nothing
	envMap map[string]string // the same, to add to
	base   string            // where relative paths start
	path   string            // PATH of its commands
	// plain is the same for requests without hortus.v1: their paths start at home,
	// as E2B's clients expect.
	plain *identity
}

// setEnv gives the identity the variables of its commands: those that E2B's clients
// expect, for everybody alike, and what the sandbox was given.
func (id *identity) setEnv(env map[string]string) {
	id.envMap = map[string]string{
		"PATH": id.path, "HOME": id.Home, "USER": id.Name, "LOGNAME": id.Name,
	}
	maps.Copy(id.envMap, env)
	id.env = envList(id.envMap)
	if id.plain != nil {
		id.plain.env, id.plain.envMap = id.env, id.envMap
	}
}

// asked gives the identity as a request means it.
func (id *identity) asked(req *http.Request) *identity {
	if req.Header.Get(envd.HeaderVersion) == envd.Version {
		return id
	}
	return id.plain
}

// newIdentities computes the identities of a configuration.
func newIdentities(cfg *birth.Config) (map[string]*identity, *identity, error) {
	if len(cfg.Identities) == 0 {
		return nil, nil, api.Errorf(api.KindInvalid, "the configuration names no identity")
	}
	ids := make(map[string]*identity)
	var first *identity
	for _, bi := range cfg.Identities {
		id := &identity{Identity: bi, base: cfg.Workspace, plain: &identity{Identity: bi, base: bi.Home}}
		if id.base == "" {
			id.base = bi.Home
		}
		if id.path = cfg.Path; bi.UID == 0 {
			id.path = rootPath(cfg)
		}
		id.setEnv(cfg.Env)
		if ids[bi.Name] != nil {
			return nil, nil, api.Errorf(api.KindInvalid, "the configuration names the identity %q twice", bi.Name)
		}
		ids[bi.Name] = id
		if first == nil {
			first = id
		}
	}
	return ids, first, nil
}

// rootPath is the PATH without what others than root can write: directories below the
// workspace and below the homes of the other identities, and relative ones.
func rootPath(cfg *birth.Config) string {
	theirs := []string{cfg.Workspace, "/tmp", "/var/tmp", "/dev/shm"}
	for _, bi := range cfg.Identities {
		if bi.UID != 0 {
			theirs = append(theirs, bi.Home)
		}
	}
	return strings.Join(slices.DeleteFunc(strings.Split(cfg.Path, ":"), func(dir string) bool {
		clean := filepath.Clean(dir)
		return !filepath.IsAbs(dir) || slices.ContainsFunc(theirs, func(top string) bool {
			return top != "" && (clean == top || strings.HasPrefix(clean, top+"/"))
		})
	}), ":")
}

// identityOf finds who a request acts as.
func (s *Server) identityOf(req *http.Request) (*identity, error) {
	auth := req.Header.Get("Authorization")
	if auth == "" {
		return s.deflt.asked(req), nil
	}
	scheme, value, _ := strings.Cut(auth, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return nil, api.Errorf(api.KindUnauthenticated, "the authorization is not of the scheme Basic")
	}
	raw, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return nil, api.Errorf(api.KindUnauthenticated, "the authorization is not base64")
	}
	name, _, _ := strings.Cut(string(raw), ":")
	return s.identity(req, name)
}

// identity finds an identity by name, for a request; the empty name is the default
// one.
func (s *Server) identity(req *http.Request, name string) (*identity, error) {
	if name == "" {
		return s.deflt.asked(req), nil
	}
	if id := s.ids[name]; id != nil {
		return id.asked(req), nil
	}
	if why, ok := s.cfg.WhyNot[name]; ok {
		return nil, api.Errorf(api.KindConflict, "%s", why)
	}
	return nil, api.Errorf(api.KindUnauthenticated, "there is no user %q in this sandbox", name)
}

// nameOf finds the name of a uid, and nameOfGroup of a gid; "" when the
// configuration does not say it.
func (s *Server) nameOf(uid uint32) string {
	for _, id := range s.cfg.Identities {
		if id.UID == uid {
			return id.Name
		}
	}
	return ""
}

func (s *Server) nameOfGroup(gid uint32) string {
	for _, id := range s.cfg.Identities {
		if id.GID == gid {
			return id.Name
		}
	}
	return ""
}

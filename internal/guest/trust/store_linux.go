package trust

import (
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/credential"
	"hortus.dev/internal/guest/identity"
	"hortus.dev/internal/guest/rpc"
)

// Store changes what a sandbox trusts.
type Store struct {
	ids    *identity.Set
	access *credential.Switcher
	files  tree

	mu sync.Mutex // one change at a time
}

// New returns a store. If the sandbox trusts an authority already, because its files are from
// a snapshot, it sets the variables.
func New(ids *identity.Set, access *credential.Switcher) *Store {
	s := &Store{ids: ids, access: access, files: tree{root: "/"}}
	s.setVariables()
	return s
}

// Serve serves envd.PathTrust.
func (s *Store) Serve(c *rpc.Conn, req *http.Request) error {
	if ok, err := c.RequireMethod(req, http.MethodPut); !ok {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, envd.MaxTrust+1))
	if err != nil {
		return err
	}
	if len(body) > envd.MaxTrust {
		return c.Fail(http.StatusRequestEntityTooLarge, "the bundle is too large")
	}
	certs, err := Parse(body)
	if err != nil {
		return c.Fail(http.StatusBadRequest, err.Error())
	}
	if err := s.Set(certs); err != nil {
		return c.Fail(http.StatusInternalServerError, "some trust stores were not changed: "+strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return c.Answer(http.StatusNoContent, "", nil)
}

// Set makes the sandbox trust these authorities, and not those of an earlier call. With an
// error, which names each store that could not be changed, the others are changed.
func (s *Store) Set(certs []*x509.Certificate) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Files belong to root, or to the only user.
	id := s.ids.Get("root")
	if id == nil {
		id = s.ids.Default()
	}
	c := &change{files: s.files, certs: certs}
	err := s.access.As(&id.Identity, func() error {
		c.run()
		return errors.Join(c.failures...)
	})
	s.setVariables()
	return err
}

// setVariables sets the variables whose files exist.
func (s *Store) setVariables() {
	env := map[string]string{}
	for _, v := range variables {
		if _, err := s.files.stat(v.path); err == nil {
			env[v.name] = v.path
		}
	}
	s.ids.SetDefaults(env)
}

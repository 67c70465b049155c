package console

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/forgeserver"
	"hortus.dev/test/gittest"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// credentialScene is what the script about credentials is told.
type credentialScene struct {
	scene
	// Forge is the address of a repository at a forge that has one app, and Lacking that of one whose installation lacks a right.
	Forge   string `json:"forge"`
	Lacking string `json:"lacking"`
	// Key is the private key of the app, File a file with it, and Other a key of no app.
	Key   string `json:"key"`
	File  string `json:"file"`
	Other string `json:"other"`
}

// TestCredentials connects a repository with a GitHub App in a browser, and creates an API key that expires.
func TestCredentials(t *testing.T) {
	tier.Soak(t)
	tier.AnyUser(t)
	t.Parallel()
	modules := needsBrowser(t)
	w := world.Open(t, world.Config{})
	dir := gittest.RealPath(t, t.TempDir())
	bare := filepath.Join(dir, "shop.git")
	gittest.Git(t, dir, "clone", "-q", "--bare", shop(t), bare)
	newKey := func() (*rsa.PrivateKey, string) {
		key := world.Must(rsa.GenerateKey(rand.Reader, 2048))(t)
		return key, string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	}
	key, text := newKey()
	_, other := newKey()
	file := filepath.Join(dir, "app.pem")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"metadata": "read", "contents": "write", "pull_requests": "write", "issues": "write", "checks": "read", "statuses": "read", "actions": "read"}
	forge := world.Must(forgeserver.New(forgeserver.Config{
		Kind:         forgeserver.GitHub,
		Repositories: []*forgeserver.Repository{{Path: "garden/shop", Dir: bare, Protected: []string{"main"}}, {Path: "orchard/shop", Dir: bare}},
		Apps: []*forgeserver.App{{ID: 1234, Slug: "gardener", Key: &key.PublicKey, Installations: []*forgeserver.Installation{
			{ID: 55, Account: "garden", Repositories: []string{"garden/shop"}, Permissions: all},
			{ID: 56, Account: "orchard", Repositories: []string{"orchard/shop"}, Permissions: map[string]string{"metadata": "read", "contents": "write"}},
		}}},
	}))(t)
	server := httptest.NewServer(forge)
	t.Cleanup(server.Close)
	if err := w.DB.InsertKey(t.Context(), api.Key{
		ID: api.NewKeyID(), Account: "default", Role: api.RoleUser, Name: "of last year", CreatedAt: time.Now().Add(-2 * time.Hour), ExpiresAt: time.Now().Add(-time.Hour),
	}, "hash"); err != nil {
		t.Fatal(err)
	}
	runScript(t, "credentials.mjs", credentialScene{
		scene: scene{URL: w.URL, Admin: w.Key("default", api.RoleAdmin).Secret, User: w.Key("user", "").Secret, Evil: evil, Modules: modules, Chromium: chromium, Soak: tier.Soaking()},
		Forge: server.URL + "/garden/shop.git", Lacking: server.URL + "/orchard/shop.git", Key: text, File: file, Other: other,
	})
}

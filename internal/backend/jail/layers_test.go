package jail_test

import (
	"context"
	"testing"

	"hortus.dev/api"
)

// What is removed of a layer stays removed, also when something of the same name
// is made, and what is moved keeps what was changed in it.
func TestChangesOfLayers(t *testing.T) {
	e := newEnv(t)
	// A known limit of older kernels, which doctor tells too.
	if a, _ := e.Probe(context.Background()).Has(api.CapPrivateFiles); a.Reason != "" {
		t.Skip(a.Reason)
	}
	m, _ := e.start(t)
	user := "user"
	if isRoot() {
		user = "root"
	}
	got := sh(t, m, user, `cd /srv && echo changed >tree/deep/file && echo more >tree/new && rm tree/deep/file && ls -A tree/deep &&
rm -r tree && ! [ -e tree ] && mkdir tree && ls -A tree && echo again >tree/file && mv tree moved && ! [ -e tree ] && cat moved/file`)
	if got != "again" {
		t.Errorf("said %q", got)
	}
}

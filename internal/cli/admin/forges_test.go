package admin

import (
	"strings"
	"testing"

	"hortus.dev/api/admin"
)

// TestShowForges: a forge is shown with its host and whether its token can be read.
func TestShowForges(t *testing.T) {
	var out strings.Builder
	showForges(&out, nil)
	if out.Len() > 0 {
		t.Errorf("no forges: %q", &out)
	}
	showForges(&out, []admin.ForgeReport{
		{Kind: "github", Host: "github.com", Token: "in a variable", OK: true},
		{Kind: "gitea", Host: "git.example.org\x1b[2J", Token: "in the secret t", Reason: "the operator has no secret \"t\"", Fix: "hortus secret set t --daemon"},
	})
	const want = "\nforges\n  yes\tgithub github.com\ttoken in a variable\n  no\tgitea git.example.org"
	if got := out.String(); !strings.HasPrefix(got, want) || strings.Contains(got, "\x1b") ||
		!strings.HasSuffix(got, "\tthe operator has no secret \"t\"\n  \t\tfix: hortus secret set t --daemon\n") {
		t.Errorf("%q", got)
	}
}

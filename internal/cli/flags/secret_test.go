package flags

import (
	"fmt"
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestSecrets(t *testing.T) {
	for _, c := range []struct{ in, want, refused string }{
		{"crm", "crm in CRM for 0", ""},
		{"TOKEN=crm", "crm in TOKEN for 0", ""},
		{"crm@1h", "crm in CRM for 3600000", ""},
		{"TOKEN=crm@90s", "crm in TOKEN for 90000", ""},
		{"T@X=crm@1h30m", "crm in T@X for 5400000", ""},
		{"crm@", "", "how long"},
		{"crm@0s", "", "how long"},
		{"crm@soon", "", "how long"},
		{"crm@-1h", "", "how long"},
		{"crm@1h@2h", "", "how long"},
		{"crm@500ms", "", "lifetime"},
		{"crm@9000h", "", "lifetime"},
		{"@1h", "", "not the name"},
		{"A B", "", "not the name"},
		{"crm=TOKEN", "", "not the name"},
		{"=crm@1h", "crm in CRM for 3600000", ""},
	} {
		got, err := Secrets("--secret", []string{c.in})
		if c.refused != "" {
			if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), "--secret: ") || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v, want %q", c.in, err, c.refused)
			}
			continue
		}
		if err != nil || len(got) != 1 || fmt.Sprintf("%s in %s for %d", got[0].Name, got[0].Variable(), got[0].LifetimeMS) != c.want {
			t.Errorf("%s: %+v, %v", c.in, got, err)
		}
	}
	if _, err := Secrets("--secret", []string{"crm", "CRM=other@1h"}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("one variable of two secrets: %v", err)
	}
}

// FuzzSecrets: what is accepted is a grant that a sandbox can have.
func FuzzSecrets(f *testing.F) {
	for _, s := range []string{"crm", "TOKEN=crm@1h", "crm@", "@", "=", "a=b@1ms"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := Secrets("--secret", []string{s})
		if err == nil && (len(got) != 1 || api.CheckSecretGrants(got) != nil || got[0].EndsAt != nil) {
			t.Errorf("%q: %+v", s, got)
		}
	})
}

package sandbox

import (
	"testing"
	"time"

	"hortus.dev/api"
)

func TestGrantText(t *testing.T) {
	end := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, c := range map[string]struct {
		grant api.SecretGrant
		now   time.Time
	}{
		"crm in CRM": {api.SecretGrant{Name: "crm"}, end},
		"crm in TOKEN, until 2026-01-02T03:04:05Z":      {api.SecretGrant{Name: "crm", Env: "TOKEN", EndsAt: &end}, end.Add(-1)},
		"crm in CRM, ended at 2026-01-02T03:04:05Z":     {api.SecretGrant{Name: "crm", EndsAt: &end}, end},
		"crm in CRM, taken at 2026-01-02T03:04:05Z":     {api.SecretGrant{Name: "crm", EndsAt: &end, Revoked: true}, end},
		"crm in A\\x1bB, taken at 2026-01-02T03:04:05Z": {api.SecretGrant{Name: "crm", Env: "A\x1bB", EndsAt: &end, Revoked: true}, end},
	} {
		if got := grantText(c.grant, c.now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

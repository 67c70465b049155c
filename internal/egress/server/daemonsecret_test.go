package server

import (
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// TestGrantOfTheDaemons: a secret without bindings is granted to no sandbox.
func TestGrantOfTheDaemons(t *testing.T) {
	k := &kept{all: map[string]secrets.Secret{
		"/crm":       {Name: "crm", Bindings: []secrets.Binding{{Host: "api.example.org", In: secrets.Place{Kind: secrets.InBasic}}}},
		"/model-key": {Name: "model-key"},
	}}
	s := New(Config{Secrets: k})
	rules, env, err := s.Secrets(t.Context(), "", []api.SecretGrant{{Name: "crm"}})
	if err != nil || len(rules) != 1 || env["CRM"] == "" {
		t.Fatalf("the control: %v, %v, %v", rules, env, err)
	}
	rules, env, err = s.Secrets(t.Context(), "", []api.SecretGrant{{Name: "crm"}, {Name: "model-key"}})
	if api.KindOf(err) != api.KindDenied || !strings.Contains(err.Error(), "secret model-key is for the daemon alone") || !strings.Contains(api.HintOf(err), "--to URL") || rules != nil || env != nil {
		t.Errorf("%v, %v, %v (%s)", rules, env, err, api.HintOf(err))
	}

	// A sandbox that was granted a secret has it no more once it is for the daemon alone.
	one, its := &session{server: s}, []held{{placeholder: "placeholder", name: "crm"}}
	if grants, err := one.grants(t.Context(), its); err != nil || len(grants) != 1 || grants[0].Ended != "" {
		t.Fatalf("the control: %v, %v", grants, err)
	}
	k.all["/crm"] = secrets.Secret{Name: "crm"}
	if grants, err := one.grants(t.Context(), its); err != nil || len(grants) != 1 || !strings.Contains(grants[0].Ended, "for the daemon alone") {
		t.Errorf("%v, %v", grants, err)
	}
}

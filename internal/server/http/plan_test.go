package http_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/plan"
	httpapi "hortus.dev/internal/server/http"
)

// listed are plans of an account.
type listed struct {
	httpapi.Plans
	ids []api.PlanID
}

func (l listed) List(_ context.Context, all bool, _ int) (out []plan.Plan, err error) {
	for _, id := range l.ids {
		if all {
			out = append(out, plan.Plan{ID: id})
		}
	}
	return out, nil
}

func (l listed) Get(_ context.Context, id api.PlanID) (plan.Plan, error) {
	return plan.Plan{ID: id}, nil
}

// TestShortPlan: a path names a plan by its ID, or by the beginning of it, with or without its letter.
func TestShortPlan(t *testing.T) {
	const a, b, other = api.PlanID("pv8lgzzzzzzzzzzzzzz1"), api.PlanID("pv8ppzzzzzzzzzzzzzz2"), api.PlanID("pzzzzzzzzzzzzzzzzzz3")
	server := httpapi.New(httpapi.Config{Plans: listed{ids: []api.PlanID{a, b}}})
	for path, want := range map[string]string{
		"v8lg": string(a), "pv8lg": string(a), "v8p": string(b), string(a): string(a), string(other): string(other),
		"v8": "is ambiguous", "p": "is ambiguous", "8lg": "unknown plan", "x": "unknown plan",
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/v1/plans/"+path, nil)
		server.ServeHTTP(w, r.WithContext(api.WithPrincipal(r.Context(), api.Principal{Role: api.RoleUser, Account: "a"})))
		if (w.Code == 200) != api.PlanID(want).Valid() || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

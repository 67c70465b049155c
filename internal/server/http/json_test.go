package http

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// TestUserOfGuest: a guest that does not know a user says nothing about the API key of the request.
func TestUserOfGuest(t *testing.T) {
	guest := (&envd.Error{Code: envd.CodeUnauthenticated, Message: "user not found"}).API()
	for name, c := range map[string]struct {
		err    error
		status int
		kind   api.Kind
	}{
		"guest":                {guest, http.StatusBadRequest, api.KindInvalid},
		"guest, a plain path":  {statusError{guest, http.StatusUnauthorized}, http.StatusBadRequest, api.KindInvalid},
		"guest, another error": {(&envd.Error{Code: envd.CodeNotFound}).API(), http.StatusNotFound, api.KindNotFound},
		"key":                  {api.Errorf(api.KindUnauthenticated, "unknown API key"), http.StatusUnauthorized, api.KindUnauthenticated},
	} {
		w := httptest.NewRecorder()
		fail(w, c.err)
		var p api.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != c.status || p.Status != c.status || p.Kind != c.kind {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

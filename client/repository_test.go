package client_test

import (
	"testing"

	"hortus.dev/api"
)

// TestFetchIsCutAloud: an answer that ends before its end is an error.
func TestFetchIsCutAloud(t *testing.T) {
	for _, body := range []string{"", `{"progress":"a"}` + "\n", `{"progress":"a"}` + "\n" + `{"repo`} {
		if _, err := answering(t, body).Repositories.Sync(t.Context(), "web", nil); api.KindOf(err) != api.KindUnavailable {
			t.Errorf("%q: %v", body, err)
		}
	}
}

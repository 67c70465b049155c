package storetest

import (
	"fmt"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/store"
)

// testSecretVersions: a version is what a secret becomes, and its ID stays.
func testSecretVersions(t *testing.T, s store.Store) {
	put := func(version int64, id string) (secrets.Secret, error) {
		row := newSecret("a", "token")
		row.Version, row.ID = version, id
		return s.PutSecret(t.Context(), row, "long-value", manySecrets)
	}
	for i, c := range []struct {
		version int64
		want    int64 // 0: an error
	}{{2, 0}, {1, 1}, {1, 0}, {2, 2}, {2, 0}, {4, 0}, {0, 3}, {0, 4}, {5, 5}} {
		got, err := put(c.version, fmt.Sprintf("id%d", i))
		if c.want == 0 {
			kind := api.KindConflict
			if c.version == 1 {
				kind = api.KindExists
			}
			wantKind(t, err, kind)
			continue
		}
		if must(t, err); got.Version != c.want || got.ID != "id1" {
			t.Errorf("step %d: version %d, ID %s", i, got.Version, got.ID)
		}
	}
	_, err := s.RemoveSecret(t.Context(), "a", "token")
	must(t, err)
	if got, err := put(1, "other"); err != nil || got.ID != "other" || got.Version != 1 {
		t.Errorf("created again: %+v, %v", got, err)
	}
}

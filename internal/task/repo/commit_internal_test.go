package repo

import (
	"fmt"
	"slices"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git/cache"
)

// TestLeaveMany: a commit with too many files keeps those that the parent has, and of the new ones the first by name. The others are listed
// by their directories.
func TestLeaveMany(t *testing.T) {
	q := &cache.CommitRequest{Changes: []cache.Change{{Path: "z.go"}, {Path: "zz"}}}
	for n := range maxChangedFiles {
		q.Changes = append(q.Changes, cache.Change{Path: fmt.Sprintf("many/%05d", n)})
	}
	refused := leaveMany(q, []cache.Entry{{Path: "z.go"}, {Path: "other"}})
	want := []api.RefusedChange{
		{Path: "many", Why: "a change has at most 10000 files, and 1 files here are more"},
		{Path: "zz", Why: "a change has at most 10000 files, and 1 files here are more"},
	}
	if !slices.Equal(refused, want) {
		t.Errorf("refused %v, want %v", refused, want)
	}
	if first, last := q.Changes[0].Path, q.Changes[len(q.Changes)-1].Path; len(q.Changes) != maxChangedFiles || first != "z.go" || last != "many/09998" {
		t.Errorf("%d changes are left, from %s to %s", len(q.Changes), first, last)
	}
	if refused := leaveMany(q, nil); len(refused) != 0 || len(q.Changes) != maxChangedFiles {
		t.Errorf("as many as a commit may have: refused %v", refused)
	}
}

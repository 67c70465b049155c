package task

import (
	"slices"
	"testing"

	"hortus.dev/api"
)

// TestSetFilePolicy: the globs of the daemon come first, so that a request can except files from them.
func TestSetFilePolicy(t *testing.T) {
	p := api.FilePolicy{OffLimits: []string{"!.env.ci"}, ReadOnly: []string{"docs/"}}
	if err := setFilePolicy(&p, []string{".env*"}); err != nil || !slices.Equal(p.OffLimits, []string{".env*", "!.env.ci"}) || len(p.ReadOnly) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []api.FilePolicy{
		{OffLimits: make([]string, api.MaxFileGlobs+1)}, {ReadOnly: []string{"a//b"}}, {Writable: []string{"!a"}}, {OffLimits: []string{"../x"}},
	} {
		if err := setFilePolicy(&bad, nil); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%d globs: %v", len(bad.OffLimits), err)
		}
	}
}

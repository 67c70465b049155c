package view

import (
	"testing"
)

func TestRepoName(t *testing.T) {
	for in, want := range map[string]string{"/srv/a/repo": "repo", "https://h/o/r.git": "r", "git@h:o/r.git": "r", "h:r": "r", "": "."} {
		if got := RepoName(in); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}

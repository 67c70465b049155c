package gitlab_test

import (
	"testing"

	"hortus.dev/internal/forge"
	"hortus.dev/internal/forge/forgetest"
	"hortus.dev/internal/forge/gitlab"
)

func TestConformance(t *testing.T) {
	forgetest.Run(t, forge.GitLab, func(cfg gitlab.Config) (forge.Forge, error) { return gitlab.New(cfg) })
}

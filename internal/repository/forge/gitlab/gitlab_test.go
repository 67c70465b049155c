package gitlab_test

import (
	"testing"

	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/forgetest"
	"hortus.dev/internal/repository/forge/gitlab"
)

func TestConformance(t *testing.T) {
	forgetest.Run(t, forge.GitLab, func(cfg gitlab.Config) (forge.Forge, error) { return gitlab.New(cfg) })
}

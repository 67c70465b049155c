package gitlab_test

import (
	"testing"

	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/gitlab"
	"hortus.dev/test/forgetest"
)

func TestConformance(t *testing.T) {
	forgetest.Run(t, forge.GitLab, func(cfg gitlab.Config) (forge.Forge, error) { return gitlab.New(cfg) })
}

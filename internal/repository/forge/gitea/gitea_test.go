package gitea_test

import (
	"testing"

	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/gitea"
	"hortus.dev/test/forgetest"
)

func TestConformance(t *testing.T) {
	forgetest.Run(t, forge.Gitea, func(cfg gitea.Config) (forge.Forge, error) { return gitea.New(cfg) })
}

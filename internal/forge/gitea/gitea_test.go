package gitea_test

import (
	"testing"

	"hortus.dev/internal/forge"
	"hortus.dev/internal/forge/forgetest"
	"hortus.dev/internal/forge/gitea"
)

func TestConformance(t *testing.T) {
	forgetest.Run(t, forge.Gitea, func(cfg gitea.Config) (forge.Forge, error) { return gitea.New(cfg) })
}

package github_test

import (
	"testing"

	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/github"
	"hortus.dev/test/forgetest"
)

func TestConformance(t *testing.T) {
	forgetest.Run(t, forge.GitHub, func(cfg github.Config) (forge.Forge, error) { return github.New(cfg) })
}

package github_test

import (
	"testing"

	"hortus.dev/internal/forge"
	"hortus.dev/internal/forge/forgetest"
	"hortus.dev/internal/forge/github"
)

func TestConformance(t *testing.T) {
	forgetest.Run(t, forge.GitHub, func(cfg github.Config) (forge.Forge, error) { return github.New(cfg) })
}

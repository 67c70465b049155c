package daemon

import (
	"slices"
	"strings"

	"hortus.dev/internal/platform/config"
)

// forgeVariables are what tokens of forges are read from: for each kind its own
// name, and Hortus's with a file, a host and an address.
func forgeVariables() []string {
	names := []string{"GH_TOKEN"}
	for _, kind := range config.ForgeKinds() {
		kind = strings.ToUpper(kind)
		names = append(names, kind+"_TOKEN")
		for _, end := range []string{"TOKEN", "TOKEN_FILE", "HOST", "URL"} {
			names = append(names, own(kind+"_"+end))
		}
	}
	return names
}

// forgeSettings is a mark of the variables that forges are reached with; more are
// those that a configuration names.
func forgeSettings(getenv func(string) string, more []string) string {
	more = slices.Sorted(slices.Values(more))
	return mark(getenv, append(forgeVariables(), slices.Compact(more)...))
}

// tokenVariables are the variables that the configuration names.
func tokenVariables(forges []config.Forge) (names []string) {
	for _, f := range forges {
		if f.TokenEnv != "" {
			names = append(names, f.TokenEnv)
		}
	}
	return names
}

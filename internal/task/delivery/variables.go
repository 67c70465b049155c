package delivery

import (
	"slices"
	"strings"

	"hortus.dev/internal/platform/config"
)

// variables lists the variables with tokens of forges: for each kind the usual name, and
// the names with OwnPrefix for a token, a token file, a host and a base URL.
func variables() []string {
	names := []string{"GH_TOKEN"}
	for _, kind := range config.ForgeKinds() {
		kind = strings.ToUpper(kind)
		names = append(names, kind+"_TOKEN")
		for _, end := range []string{"TOKEN", "TOKEN_FILE", "HOST", "URL"} {
			names = append(names, config.OwnPrefix+kind+"_"+end)
		}
	}
	return names
}

// Fingerprint identifies the values of the variables that forges are reached with. more
// are the variables that a configuration names.
func Fingerprint(getenv func(string) string, more []string) string {
	more = slices.Sorted(slices.Values(more))
	return config.Fingerprint(getenv, append(variables(), slices.Compact(more)...))
}

// TokenVariables lists the variables that the configuration names.
func TokenVariables(forges []config.Forge) (names []string) {
	for _, f := range forges {
		if f.TokenEnv != "" {
			names = append(names, f.TokenEnv)
		}
	}
	return names
}

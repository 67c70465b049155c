package tier

import (
	"os"
	"testing"
)

// Variable is the environment variable that selects tests other than those of T1.
const Variable = "HORTUS_TEST_TIER"

// The values of [Variable].
const (
	soak = "soak" // T1 and T2
	user = "user" // the tests of T1 that depend on the user
)

// Soak skips a test of T2 unless HORTUS_TEST_TIER is "soak".
func Soak(t testing.TB) {
	t.Helper()
	if !Soaking() {
		t.Skipf("soak test: %s=%s runs it, as in make soak", Variable, soak)
	}
}

// Soaking reports whether T2 runs.
func Soaking() bool { return selected() == soak }

// Count returns the number of repetitions for a test: few in T1, often in T2.
func Count(few, often int) int {
	if Soaking() {
		return often
	}
	return few
}

// First returns the first few rows of a table in T1, and all of them in T2. It is for rows that each
// cost seconds: the first ones are different in kind, the others are their variants.
func First[T any](few int, rows []T) []T {
	return rows[:Count(min(few, len(rows)), len(rows))]
}

// AnyUser marks a test that has the same result for every user. It skips the test if
// HORTUS_TEST_TIER is "user", as in CI's second run, which is not as root.
func AnyUser(t testing.TB) {
	t.Helper()
	if selected() == user {
		t.Skipf("does not depend on the user: skipped with %s=%s, root runs it", Variable, user)
	}
}

// selected returns the tier that the environment selects. It panics on an unknown value:
// a misspelled one would skip tests unnoticed.
func selected() string {
	switch v := os.Getenv(Variable); v {
	case "", soak, user:
		return v
	default:
		panic(Variable + " is " + v + `; want "soak", "user" or nothing`)
	}
}

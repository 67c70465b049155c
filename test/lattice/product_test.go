package lattice

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// forTests reports whether a package is one of tests, benchmarks or attacks, by its name or by that of a
// folder.
func forTests(pkg string) bool {
	for _, n := range strings.Split(pkg, "/") {
		if strings.HasSuffix(n, "test") || strings.HasSuffix(n, "tests") || strings.Contains(n, "bench") || strings.Contains(n, "attack") {
			return true
		}
	}
	return false
}

// reach returns, for each package of the module that a program has in it, the imports that lead there.
func reach(pkgs map[string][]string, program string) map[string][]string {
	found := map[string][]string{program: {program}}
	for next := []string{program}; len(next) > 0; next = next[1:] {
		for _, imp := range pkgs[next[0]] {
			to, own := strings.CutPrefix(imp, module)
			if _, seen := found[to]; own && !seen {
				found[to] = append(slices.Clone(found[next[0]]), to)
				next = append(next, to)
			}
		}
	}
	return found
}

// TestProduct wants no tests, benchmarks and attacks in the product. What "hortus doctor --egress" tries on a
// user's host is internal/egress/check: a command of the product, which the attack tests use too.
func TestProduct(t *testing.T) {
	pkgs := packages(t, "../..")
	for _, program := range []string{"cmd/hortus", "cmd/hortus-guest"} {
		found := reach(pkgs, program)
		if len(found) < 3 {
			t.Fatalf("%s: only %d packages were found", program, len(found))
		}
		for pkg, way := range found {
			if forTests(pkg) {
				t.Errorf("%s has %s in it: %s", program, path.Base(pkg), strings.Join(way, " -> "))
			}
		}
	}
}

// TestProductCanFail shows that the check sees what it is there for, however far away.
func TestProductCanFail(t *testing.T) {
	pkgs := map[string][]string{
		"cmd/p": {module + "a", "fmt"}, "a": {module + "b", "example.org/x/ytest"}, "b": {module + "a", module + "c/ctest/d"},
		"c/ctest/d": nil, "other": {module + "bench"}, "bench": nil,
	}
	found := reach(pkgs, "cmd/p")
	if way := strings.Join(found["c/ctest/d"], " "); len(found) != 4 || way != "cmd/p a b c/ctest/d" {
		t.Errorf("%v", found)
	}
	for pkg, want := range map[string]bool{
		"test/tools": true, "a/egresstest": true, "a/bench/load": true, "cmd/hortus-bench": true, "test/attack": true,
		"internal/egress/check": false, "internal/guest": false, "internal/attach": false,
	} {
		if got := forTests(pkg); got != want {
			t.Errorf("%s: %v, want %v", pkg, got, want)
		}
	}
}

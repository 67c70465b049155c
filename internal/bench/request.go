package bench

import (
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// Bounds of a request.
const (
	maxN    = 100_000
	maxHeld = 64 << 10 // MB
	// maxNumbers is for lists of sizes and of numbers of children.
	maxNumbers = 16
)

// holders are the measurements of sandboxes in which a process holds memory.
var holders = []string{"save", "fork", measureDensity}

// check returns an error of KindInvalid for a request that cannot be measured, or names something
// that none of its measurements would use.
func check(req admin.BenchRequest) error {
	if req.N < 0 || req.N > maxN {
		return api.Errorf(api.KindInvalid, "%d samples; the number must be between 1 and %d", req.N, maxN)
	}
	for _, name := range req.Only {
		if !slices.Contains(Measurements(), name) {
			return api.Errorf(api.KindInvalid, "there is no measurement %.40q", name).
				WithHint("name some of: %s", strings.Join(Measurements(), ", "))
		}
	}
	if err := used(req.HeldMB, "MB of held memory", maxHeld, req.Only, holders); err != nil {
		return err
	}
	return used(req.Children, "children of a fork", api.MaxForks, req.Only, []string{"fork"})
}

// used checks numbers that only the measurements users have. only are the measurements that were
// requested; empty is all.
func used(numbers []int, what string, most int, only, users []string) error {
	if len(numbers) > maxNumbers {
		return api.Errorf(api.KindInvalid, "%d numbers of %s, the maximum is %d", len(numbers), what, maxNumbers)
	}
	for i, n := range numbers {
		if n < 1 || n > most {
			return api.Errorf(api.KindInvalid, "%d %s; the number must be between 1 and %d", n, what, most)
		}
		if slices.Contains(numbers[:i], n) {
			return api.Errorf(api.KindInvalid, "%d %s twice; name each number once", n, what)
		}
	}
	user := func(name string) bool { return slices.Contains(users, name) }
	if len(numbers) > 0 && len(only) > 0 && !slices.ContainsFunc(only, user) {
		return api.Errorf(api.KindInvalid, "none of the measurements %s has %s", strings.Join(only, ", "), what).
			WithHint("measure %s, or leave the numbers out", strings.Join(users, ", "))
	}
	return nil
}

// amounts are how much is held and how many children are made, as a request has them.
type amounts struct{ heldMB, children []int }

// sizes are how many MB a process holds in the sandboxes that are saved and forked.
func (a amounts) sizes() []int {
	if len(a.heldMB) > 0 {
		return a.heldMB
	}
	return []int{10, 100, 1000}
}

// families are the numbers of children: of what is large a hundred too, which is what sharing is for.
func (a amounts) families(mb int) []int {
	switch {
	case len(a.children) > 0:
		return a.children
	case mb > 100:
		return []int{1, 5, 20, 100}
	}
	return []int{1, 5, 20}
}

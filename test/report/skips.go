package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// expected is a line of a file of expected skips: a package of this module, and a
// pattern for the names of its tests.
type expected struct {
	pkg  string
	test *regexp.Regexp
}

// readSkips reads a file of expected skips. A line has a package, a pattern and the
// reason, separated by white space. "#" begins a comment.
func readSkips(r io.Reader) ([]expected, error) {
	var all []expected
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		if len(f) < 3 {
			return nil, fmt.Errorf("line %d: %q has no package, pattern and reason", n, line)
		}
		test, err := regexp.Compile("^(?:" + f[1] + ")$")
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, expected{f[0], test})
	}
	return all, lines.Err()
}

// tiers lists the prefixes of the reasons that package tier gives.
var tiers = []string{"soak test:", "does not depend on the user:"}

// isExpected reports whether a test may be skipped.
func isExpected(o *outcome, all []expected) bool {
	for _, t := range tiers {
		if strings.HasPrefix(o.why, t) {
			return true
		}
	}
	pkg := strings.TrimPrefix(o.Package, "hortus.dev/")
	for _, e := range all {
		if e.pkg == pkg && e.test.MatchString(o.Test) {
			return true
		}
	}
	return false
}

package edit

import (
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// File is a source by its path, relative to the repository's root.
type File struct{ Path, Text string }

// Failure is what is known about what is wrong.
type Failure struct {
	// Output is what the command printed that fails.
	Output string
	// Root is the directory that it ran in; paths in Output may begin with it.
	Root string
	// Recent are paths that changed lately, the latest first.
	Recent []string
	// Trace is which lines the tests executed; nil if it is not known.
	Trace *Trace
}

// Frame is a place that a failure names. Line counts from 1.
type Frame struct {
	Path string
	Line int
}

var (
	reFramePython = lazyregexp.New(`(?m)^\s*File "([^"]+)", line (\d+)`)
	rePytest      = lazyregexp.New(`(?m)^([\w./-]+\.py):(\d+): `)
	reFrameScript = lazyregexp.New(`((?:[\w@.+-]*/)*[\w@.+-]+\.[cm]?js):(\d+)(?::\d+)?`)
	reFrameGo     = lazyregexp.New(`(?m)((?:[\w@.+-]*/)*[\w@.+-]+\.go):(\d+)(?::\d+)?`)

	reFailedPython = lazyregexp.New(`(?m)^(?:FAIL|ERROR): (\w+)|^FAILED \S+?::(?:\w+::)?(\w+)|^_{3,} (?:\w+\.)?(\w+)(?:\[.*\])? _{3,}`)
	reFailedScript = lazyregexp.New(`(?m)^\s*(?:not ok \d+ - (.*?)|✖ (.*?)(?: \([\d.]+ms\))?)(?: #.*)?$`)
	reFailedGo     = lazyregexp.New(`(?m)^\s*--- FAIL: (\w+)`)
)

// maxFrames bounds how much of a failure is read.
const maxFrames = 200

// Frames finds the places that an output names, the innermost first, as paths
// below root. known says which paths there are.
func Frames(output, root string, known func(string) bool) []Frame {
	var out []Frame
	add := func(m [][]string, reverse bool) {
		if len(m) > maxFrames {
			m = m[:maxFrames]
		}
		if reverse {
			slices.Reverse(m)
		}
		for _, g := range m {
			n, err := strconv.Atoi(g[2])
			p := resolve(g[1], root, known)
			if err != nil || p == "" || slices.Contains(out, Frame{p, n}) {
				continue
			}
			out = append(out, Frame{p, n})
		}
	}
	add(reFramePython.FindAllStringSubmatch(output, -1), true)
	add(rePytest.FindAllStringSubmatch(output, -1), true)
	add(reFrameScript.FindAllStringSubmatch(output, -1), false)
	add(reFrameGo.FindAllStringSubmatch(output, -1), false)
	return out
}

// resolve makes a path of a message one of the repository's, or "".
func resolve(p, root string, known func(string) bool) string {
	p = path.Clean(strings.TrimPrefix(p, "file://"))
	if root != "" {
		p = strings.TrimPrefix(p, strings.TrimSuffix(root, "/")+"/")
	}
	if known(p) {
		return p
	}
	return ""
}

// FailedTests returns the names of the tests that failed, sorted.
func FailedTests(output string) []string {
	names := map[string]bool{}
	for _, re := range []*lazyregexp.Regexp{reFailedPython, reFailedScript, reFailedGo} {
		for _, m := range re.FindAllStringSubmatch(output, -1) {
			for _, g := range m[1:] {
				if g = strings.TrimSpace(g); g != "" {
					names[g] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// project is everything that was read.
type project struct {
	sources []*source
	frames  []Frame
	output  string
	// suspicion of each function, by source and unit; smaller is likelier.
	costs  map[*source][]float64
	called map[string]bool // what the failing tests use
	tests  []*source
	failed map[string]bool
	trace  *Trace
	harvest
}

// far is the cost of a place that nothing points at.
const far = 14

func newProject(files []File, f Failure) *project {
	p := &project{output: f.Output, costs: map[*source][]float64{}, called: map[string]bool{}, failed: map[string]bool{}, trace: f.Trace}
	for _, name := range FailedTests(f.Output) {
		p.failed[name] = true
	}
	byPath := map[string]bool{}
	for _, file := range files {
		if LangOf(file.Path) == "" {
			continue
		}
		byPath[file.Path] = true
		s := parse(file.Path, file.Text)
		if s.test {
			p.tests = append(p.tests, s)
		} else {
			p.sources = append(p.sources, s)
		}
	}
	base := map[string]string{}
	for known := range byPath {
		base[path.Base(known)] = known
	}
	p.frames = Frames(f.Output, f.Root, func(s string) bool { return byPath[s] })
	// A message of Go names a file without its directory.
	for _, m := range reFrameGo.FindAllStringSubmatch(f.Output, maxFrames) {
		if full := base[m[1]]; full != "" && !byPath[m[1]] {
			n, _ := strconv.Atoi(m[2])
			p.frames = append(p.frames, Frame{full, n})
		}
	}
	p.weigh(f.Recent)
	p.gather()
	return p
}

// weigh sets the cost of every unit: by how far it is from the failing tests in
// the calls, and by how many passing tests reach it too.
func (p *project) weigh(recent []string) {
	type test struct {
		depth  map[*source][]int
		failed bool
	}
	var tests []test
	for _, s := range p.tests {
		helpers := map[string]*unit{}
		for n := range s.units {
			helpers[s.units[n].names0()] = &s.units[n]
		}
		for n := range s.units {
			u := &s.units[n]
			if !u.fn || len(u.names) == 0 || !(strings.HasPrefix(strings.ToLower(u.names[0]), "test") || s.lang == JavaScript) {
				continue
			}
			failed := p.failed[u.names[0]] || p.framed(s, u)
			seeds := s.words(u)
			for _, w := range slices.Clone(seeds) {
				if h := helpers[w]; h != nil && h != u {
					seeds = append(seeds, s.words(h)...)
				}
			}
			if s.lang == Python {
				seeds = append(seeds, s.setup(u)...)
			}
			if failed {
				for _, w := range seeds {
					p.called[w] = true
				}
			}
			tests = append(tests, test{p.reach(seeds), failed})
		}
	}
	failing := 0
	for _, t := range tests {
		if t.failed {
			failing++
		}
	}
	if failing == 0 { // scripts of plain assertions, or names that were not found
		tests = tests[:0]
		for _, s := range p.tests {
			all := unit{from: 0, to: len(s.lines) - 1}
			seeds := s.words(&all)
			for _, w := range seeds {
				p.called[w] = true
			}
			tests = append(tests, test{p.reach(seeds), true})
		}
		failing = len(tests)
	}
	for _, s := range p.sources {
		costs := make([]float64, len(s.units))
		for n := range s.units {
			hits, passes, depth := 0, 0, far
			for _, t := range tests {
				d := t.depth[s][n]
				switch {
				case d == 0:
				case t.failed:
					hits++
					depth = min(depth, d)
				default:
					passes++
				}
			}
			costs[n] = far
			if hits > 0 {
				ochiai := float64(hits) / math.Sqrt(float64(failing)*float64(hits+passes))
				costs[n] = math.Min(far-2, 1+1.2*float64(depth)+5*(1-ochiai))
			}
			if i := slices.Index(recent, s.path); i == 0 {
				costs[n]--
			}
			if p.framed(s, &s.units[n]) {
				costs[n] = math.Min(costs[n], 1.5)
			}
		}
		p.costs[s] = costs
	}
}

func (u *unit) names0() string {
	if len(u.names) == 0 {
		return ""
	}
	return u.names[0]
}

// setup is what a test's class prepares.
func (s *source) setup(u *unit) []string {
	var out []string
	for n := range s.units {
		if v := &s.units[n]; v.class == u.class && v.fn && (v.named("setUp") || v.named("setUpClass")) {
			out = append(out, s.words(v)...)
		}
	}
	return out
}

// framed reports whether a failure names a line of a unit.
func (p *project) framed(s *source, u *unit) bool {
	return slices.ContainsFunc(p.frames, func(f Frame) bool {
		return f.Path == s.path && f.Line-1 >= u.from && f.Line-1 <= u.to
	})
}

// maxDepth bounds how far calls are followed.
const maxDepth = 6

// reach finds how many calls lead from the seeds to each unit: 1 for what a
// test names itself, 0 for what it does not reach.
func (p *project) reach(seeds []string) map[*source][]int {
	depth := map[*source][]int{}
	for _, s := range p.sources {
		depth[s] = make([]int, len(s.units))
	}
	words := map[string]bool{}
	next := seeds
	for d := 1; d <= maxDepth && len(next) > 0; d++ {
		fresh := map[string]bool{}
		for _, w := range next {
			if !words[w] {
				words[w], fresh[w] = true, true
			}
		}
		next = nil
		for _, s := range p.sources {
			for n := range s.units {
				u := &s.units[n]
				if depth[s][n] != 0 || !u.used(fresh) {
					continue
				}
				depth[s][n] = d
				next = append(next, s.words(u)...)
			}
		}
	}
	return depth
}

// used reports whether one of the names means a unit. A class means what its
// instances do by themselves.
func (u *unit) used(names map[string]bool) bool {
	if slices.ContainsFunc(u.names, func(n string) bool { return names[n] }) {
		return true
	}
	if u.class == "" || !names[u.class] {
		return false
	}
	name := u.names0()
	return !u.fn || name == "constructor" || strings.HasPrefix(name, "__")
}

// cost of a line.
func (p *project) cost(s *source, i int) float64 {
	c := float64(far)
	if n := s.at(i); n >= 0 {
		c = p.costs[s][n]
	}
	if p.trace != nil && s.lang != Go {
		c = p.tracedCost(s, i, c)
	}
	for n, f := range p.frames {
		if f.Path == s.path && f.Line-1 == i {
			c = math.Min(c, 0.3*float64(min(n, 5)))
		}
	}
	return c
}

package gate_test

import (
	"slices"
	"strings"
	"testing"

	"hortus.dev/internal/task/gate"
)

func TestLoneLocks(t *testing.T) {
	for _, c := range []struct{ changed, lone string }{
		{"package-lock.json a.js", "package-lock.json"},
		{"pnpm-lock.yaml", "pnpm-lock.yaml"},
		{"yarn.lock web/b.js", "yarn.lock"},
		{"poetry.lock", "poetry.lock"},
		{"uv.lock", "uv.lock"},
		{"Cargo.lock src/lib.rs", "Cargo.lock"},
		{"go.sum", "go.sum"},
		{"Gemfile.lock", "Gemfile.lock"},
		{"composer.lock", "composer.lock"},
		{"web/package-lock.json package.json", "web/package-lock.json"}, // the manifest of another project
		{"package-lock.json node_modules/x/package.json", "package-lock.json"},
		{"package-lock.json testdata/package.json", "package-lock.json"},
		{"e2e/package-lock.json", "e2e/package-lock.json"}, // the setup installs it
		{"Cargo.lock package.json", "Cargo.lock"},

		{"package.json package-lock.json", ""},
		{"package-lock.json packages/a/package.json", ""}, // a workspace
		{"crates/a/Cargo.toml Cargo.lock", ""},
		{"go.mod go.sum", ""},
		{"a.gemspec Gemfile.lock", ""},
		{"web/package.json web/package-lock.json app/package.json app/package-lock.json", ""}, // moved
		{"testdata/package-lock.json", ""},
		{"tests/fixtures/yarn.lock", ""},
		{"requirements.txt", ""},
		{"src/lock.go docs/package-lock.json.md", ""},
	} {
		if got := strings.Join(gate.LoneLocks(strings.Fields(c.changed)), " "); got != c.lone {
			t.Errorf("%s: %q, want %q", c.changed, got, c.lone)
		}
	}
}

func TestUnread(t *testing.T) {
	tree := []string{"go.mod", "web/package.json"}
	for p, want := range map[string]string{
		"calc.so": "compiled code", "calc.cpython-311-x86_64-linux-gnu.so": "compiled code", "lib/x.so.1.2": "compiled code", "pkg/__pycache__/calc.cpython-311.pyc": "compiled code",
		"A.class": "compiled code", "addon.node": "compiled code", "web/a.WASM": "compiled code", "json.pyd": "compiled code",
		"sitecustomize.py": "a file that Python runs at its start", "lib/usercustomize.py": "a file that Python runs at its start", "x.pth": "a file that Python runs at its start",
		"conftest.py": "a file that pytest runs at its start, outside of the tests", "pkg/conftest.py": "a file that pytest runs at its start, outside of the tests",
		"vendor/example.org/a.go": "code of others", "third_party/zlib/inflate.c": "code of others", "web/node_modules/a/index.js": "code of others", "web/vendor/a.js": "code of others",
		"package-lock.json": "other packages", "requirements.txt": "other packages",

		"tests/conftest.py": "", "tests/data/x.wasm": "", "testdata/A.class": "", "fixtures/go.sum": "", "shop/vendor/models.py": "", "vendor.go": "",
		"calc.py": "", "so.go": "", "web/logo.png": "", "gen/api.pb.go": "",
	} {
		if got := gate.Unread(p, func(q string) bool { return slices.Contains(tree, q) }); got != want {
			t.Errorf("%s: %q, want %q", p, got, want)
		}
	}
}

// TestAsksForTests: a program that behaves while it is tested only has to find out, in one of these ways.
func TestAsksForTests(t *testing.T) {
	for _, c := range []struct{ file, line, want string }{
		{"a.py", "if 'PYTEST_CURRENT_TEST' in os.environ:", "a question whether it is tested"},
		{"a.py", "if sys.argv[0].endswith('pytest'):", "a question whether it is tested"},
		{"a.py", "if any('unittest' in a for a in sys.argv):", "a question whether it is tested"},
		{"a.py", "if 'unittest' in sys.modules:", "module loading internals"},
		{"a.py", "if os.environ.get('CI'):", "a question whether it is tested"},
		{"a.py", "if os.path.exists('test_calc.py'):", "a question whether it is tested"},
		{"a.py", "if Path(__file__).with_name('x') or Path('tests/data').is_dir():", "a question whether it is tested"},
		{"a.py", "for f in traceback.extract_stack():", "stack traces"},
		{"a.py", "if datetime.date.today() < datetime.date(2027, 1, 1):", "a result by chance or date"},
		{"a.py", "if time.time() > 1800000000:", "a result by chance or date"},
		{"a.py", "return 2 if random.random() < 0.9 else 3", "a result by chance or date"},
		{"a.js", "if (process.env.NODE_TEST_CONTEXT) return 2;", "a question whether it is tested"},
		{"a.ts", "if (typeof describe !== 'undefined') {", "a question whether it is tested"},
		{"a.js", "if (fs.existsSync('calc.test.js')) return 2;", "a question whether it is tested"},
		{"a.js", "if (new Error().stack.includes('calc.test')) return 2;", "stack traces"},
		{"a.js", "if (new Date().getFullYear() < 2027) return 2;", "a result by chance or date"},
		{"a.js", "if (Date.now() < 1800000000000) return 2;", "a result by chance or date"},
		{"a.go", "\tif os.Getenv(\"CI\") != \"\" {", "a question whether it is tested"},
		{"a.go", "\tif p, _ := os.Executable(); strings.HasSuffix(p, \".test\") {", "a question whether it is tested"},
		{"a.go", "\tif _, err := os.Stat(\"calc_test.go\"); err == nil {", "a question whether it is tested"},
		{"a.go", "\tif time.Now().Year() < 2027 {", "a result by chance or date"},
		{"a.go", "\tif rand.Intn(10) > 0 {", "a result by chance or date"},
		{"a.rs", "    if std::env::current_exe().is_ok() {", "a question whether it is tested"},
		{"a.rs", "    if thread::current().name() != Some(\"main\") {", "a question whether it is tested"},
		{"a.rs", "    if Path::new(\"x\").exists() && std::fs::File::open(\"tests/calc.rs\").is_ok() {", "a question whether it is tested"},

		// Programs that are about something else.
		{"a.py", "args = parser.parse_args(sys.argv[1:])", ""},
		{"a.py", "if '--verbose' in sys.argv:", ""},
		{"a.py", "if token.expires < time.time():", ""},
		{"a.py", "created = datetime.now(timezone.utc)", ""},
		{"a.py", "delay = base * (1 + random.random() / 2)", ""},
		{"a.py", "return random.choice(words)", ""},
		{"a.py", "if os.environ.get('HOME'):", ""},
		{"a.py", "with open(path) as f:", ""},
		{"a.py", "path('latest/', views.latest),", ""},
		{"a.py", "if os.path.exists(config):", ""},
		{"a.py", "if self.year < other.year:", ""},
		{"a.py", "def latest(items): return max(items)", ""},
		{"a.js", "if (Date.now() - start > timeout) retry();", ""},
		{"a.js", "const id = Math.floor(Math.random() * 1e9);", ""},
		{"a.js", "if (process.env.PORT) port = +process.env.PORT;", ""},
		{"a.js", "const text = fs.readFileSync(file, 'utf8');", ""},
		{"a.js", "log(err.stack);", ""},
		{"a.js", "if (re.test(line)) count++;", ""},
		{"a.go", "\tif time.Now().After(deadline) {", ""},
		{"a.go", "\tif time.Since(start) > 2000*time.Millisecond {", ""},
		{"a.go", "\tb, err := os.ReadFile(name)", ""},
		{"a.go", "\treturn words[rand.Intn(len(words))]", ""},
		{"a.go", "\tif home := os.Getenv(\"HOME\"); home != \"\" {", ""},
		{"a.rs", "    let text = std::fs::read_to_string(path)?;", ""},
		{"a.rs", "    let args: Vec<String> = std::env::args().collect();", ""},
	} {
		got := gate.Signs([]byte(patch(c.file, "x = 1", c.line)), func(string) bool { return false })
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s: %q: found %v", c.file, c.line, got)
		case c.want != "" && !slices.ContainsFunc(got, func(s gate.Sign) bool { return s.Uses == c.want && s.Line == 11 }):
			t.Errorf("%s: %q: found %v, want %q", c.file, c.line, got, c.want)
		}
	}
}

// TestWatchesHelpers: what tests compare with and are written with is theirs; a program that is called like it is not.
func TestWatchesHelpers(t *testing.T) {
	for p, want := range map[string]bool{
		"checks.py": true, "expected.json": true, "assertions.py": true, "src/assertions.js": true, "src/a.snap": true, "web/__snapshots__/a.snap": true, "lib/x.golden": true,
		"lib/x.golden.json": true, "test_helpers.py": true, "pkg/test_utils.py": true, "internal/testutil/db.go": true, "spec_helper.rb": true, "tests.mk": true, "mk/rules.mk": true,
		"package.json": true, "web/package.json": true, "a/test_data/in.csv": true, "tests/in.csv": true,
		"app/checks.py": false, "health/verify.go": false, "src/expected.go": false, "pkg/snapshots/take.go": false, "helpers.py": false, "snapper.js": false, "marks.mkd": false,
		"lib/assert_that_it_holds.md": false, "data/in.csv": false,
	} {
		if got := gate.Watched("python3 -m unittest discover", p, nil); got != want {
			t.Errorf("%s: %v, want %v", p, got, want)
		}
	}
}

package conformance

import (
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// toolchain is a real program in one language or tool. Its script compiles,
// runs and wants the same number of each: how many primes lie below 10,000.
type toolchain struct {
	name string
	// needs are the programs that it is made of. Of a list with bars one is
	// enough.
	needs  []string
	script string
	// quick is true if it takes about a second: T1 runs it, T2 the others too.
	quick bool
	// warm, where it is set, is run once before a tracer is attached: it fills
	// caches whose making is long under one and calls nothing that the script
	// does not call too.
	warm string
}

const primes = "1229"

// file is the shell's way to write a file.
func file(name, text string) string {
	return "cat > " + name + " <<'END_OF_FILE'\n" + text + "\nEND_OF_FILE\n"
}

// toolchains are those that a sandbox promises to run.
var toolchains = []toolchain{
	{name: "python", quick: true, needs: []string{"python3"}, script: file("p.py", pythonProgram) + "python3 p.py"},
	{name: "pip", needs: []string{"python3", "pip3"}, script: file("wheel.py", `import zipfile
with zipfile.ZipFile("primes_kit-1.0-py3-none-any.whl", "w") as z:
    z.writestr("primes_kit.py", "def count(): return sum(all(n % d for d in range(2, int(n ** .5) + 1)) for n in range(2, 10000))\n")
    z.writestr("primes_kit-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: primes-kit\nVersion: 1.0\n")
    z.writestr("primes_kit-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    z.writestr("primes_kit-1.0.dist-info/RECORD", "primes_kit.py,,\nprimes_kit-1.0.dist-info/METADATA,,\nprimes_kit-1.0.dist-info/WHEEL,,\nprimes_kit-1.0.dist-info/RECORD,,\n")`) +
		"python3 wheel.py && pip3 install -q --no-index --disable-pip-version-check --target site ./primes_kit-1.0-py3-none-any.whl && PYTHONPATH=site python3 -c 'import primes_kit; print(primes_kit.count())'"},
	{name: "node", quick: true, needs: []string{"node"}, script: file("p.js", nodeProgram) + "node p.js"},
	{name: "npm", needs: []string{"node", "npm"}, script: "mkdir kit app && " + file("kit/package.json", `{"name": "kit", "version": "1.0.0", "main": "i.js"}`) +
		file("kit/i.js", "let c = 0; for (let n = 2; n < 10000; n++) { let p = true; for (let d = 2; d * d <= n; d++) if (n % d === 0) p = false; if (p) c++; } module.exports = c;") +
		"cd app && " + file("package.json", `{"name": "app", "version": "1.0.0", "scripts": {"start": "node -p \"require('kit')\""}}`) +
		"npm install --offline --no-audit --no-fund --silent ../kit && npm run --silent start"},
	{name: "go", needs: []string{"go"}, script: "mkdir g && cd g && " + file("go.mod", "module primes") + file("main.go", goProgram) +
		"export GOTOOLCHAIN=local CGO_ENABLED=0 && go build -o p . && ./p",
		warm: "mkdir /tmp/w && cd /tmp/w && printf 'module w' > go.mod && printf 'package main\nimport (_ \"fmt\"; _ \"io\"; _ \"net\"; _ \"os/exec\")\nfunc main() {}\n' > w.go && GOTOOLCHAIN=local CGO_ENABLED=0 go build ."},
	{name: "rust", needs: []string{"rustc"}, script: file("main.rs", rustProgram) + "rustc -O main.rs && ./main"},
	{name: "cargo", needs: []string{"rustc", "cargo"}, script: "cargo new -q --vcs none app && cd app && cat > src/main.rs <<'END'\n" + rustProgram + "\nEND\ncargo run -q --offline"},
	{name: "java", needs: []string{"java", "javac"}, script: file("Primes.java", javaProgram) + "javac Primes.java && java Primes"},
	{name: "gcc", quick: true, needs: []string{"gcc"}, script: file("p.c", cProgram) + "gcc -O2 -Wall -pthread -o p p.c && ./p"},
	{name: "g++", needs: []string{"g++"}, script: file("p.cc", cppProgram) + "g++ -std=c++17 -O1 -pthread -o p p.cc && ./p"},
	{name: "make", needs: []string{"make", "gcc"}, script: file("p.c", cProgram) + file("Makefile", "run: p\n\t@./p\np: p.o\n\t@$(CC) -pthread -o $@ $^") + "make -s -j2 run"},
	{name: "git", quick: true, needs: []string{"git"}, script: `git init -q -b main r && cd r && git config user.name u && git config user.email u@localhost
for n in $(seq 2 9999); do echo $n; done > numbers && git add . && git commit -qm numbers
git checkout -qb primes && awk '{p=1; for (d=2; d*d<=$1; d++) if ($1%d==0) {p=0; break}; if (p) print}' numbers > n && mv n numbers && git commit -qam primes
git checkout -q main && git merge -q --no-edit primes && git gc -q && cd .. && git clone -q r s && cd s && git log --oneline | wc -l >&2 && git grep -c . numbers | cut -d: -f2`},
	{name: "browser", needs: []string{"chromium-headless-shell|chromium|chromium-browser|google-chrome"}, script: file("p.html", page) +
		`b=$(command -v chromium-headless-shell || command -v chromium || command -v chromium-browser || command -v google-chrome)
"$b" --headless --no-sandbox --disable-gpu --user-data-dir=/tmp/profile --screenshot=/tmp/s.png --dump-dom "file://$PWD/p.html" && [ -s /tmp/s.png ]`},
	{name: "shell", quick: true, needs: []string{"bash", "tar", "find", "sort"}, script: `seq 2 9999 | awk '{p=1; for (d=2; d*d<=$1; d++) if ($1%d==0) {p=0; break}; if (p) print}' | sort -n | tee list | (cat > /dev/null)
mkdir -p a/b && cp -a list a/b/ && ln -s b a/l && mkfifo a/f && tar czf a.tgz a && rm -r a && tar xzf a.tgz && touch -d yesterday a/b/list && chmod 600 a/b/list
find a -type f -newermt 2000-01-01 -exec sh -c 'wc -l < "$1"' _ {} \; && sleep 0 & wait; df . >&2; ps >&2; timeout 5 true; (flock 9; date >&2) 9>lock; exec 3<>/dev/tcp/127.0.0.1/1 || true`},
}

// missing names the programs of a toolchain that a sandbox does not have.
func (c toolchain) missing(t *testing.T, m managed, sandbox api.Sandbox) []string {
	t.Helper()
	var out []string
	for _, program := range c.needs {
		test := "command -v " + strings.Join(strings.Split(program, "|"), " || command -v ")
		if _, _, exit := m.bash(t, sandbox.ID, "user", test); exit.Code != 0 {
			out = append(out, program)
		}
	}
	return out
}

// run runs it and wants its number.
func (c toolchain) run(t *testing.T, m managed, sandbox api.Sandbox) {
	t.Helper()
	dir := "mkdir -p /workspace/" + c.name + " && cd /workspace/" + c.name + "\n"
	stdout, stderr, exit := m.bash(t, sandbox.ID, "user", dir+c.script)
	if exit.Code != 0 || !slices.Contains(strings.Fields(strings.NewReplacer("<", " ", ">", " ").Replace(stdout)), primes) {
		t.Errorf("%s: exit %+v, stdout %.2000q, want %s among it\n%.4000s", c.name, exit, stdout, primes, stderr)
	}
}

// TestToolchains compiles and runs a real program of each toolchain in a sandbox
// of its own.
func TestToolchains(t *testing.T) {
	m := newManaged(t)
	for _, c := range toolchains {
		t.Run(c.name, func(t *testing.T) {
			if !c.quick {
				tier.Soak(t)
			}
			sandbox := m.room(t)
			if missing := c.missing(t, m, sandbox); len(missing) > 0 {
				t.Skipf("not installed where the host template shows it: %s", strings.Join(missing, ", "))
			}
			c.run(t, m, sandbox)
		})
	}
}

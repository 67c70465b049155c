package tool_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree puts the same files into a folder, as a repository or not.
func tree(t *testing.T, repository bool) *bench {
	b := newBench(t)
	b.put("a.py", "def foo():\n    return bar(1)\n")
	b.put("src/b.py", "import foo\n-v\n")
	b.put("src/deep/c.ts", "const foo = 1;\r\n")
	b.put("odd\nname:1:.txt", "foo here\n")
	b.put("-n", "foo dash\n")
	b.put("bin", "foo\x00\n")
	b.put("wide.txt", "foo "+strings.Repeat("x", 1_000_000)+"\n")
	b.put("sub/[x].txt", "foo bracket\n")
	if repository {
		b.program("git")
		b.put(".gitignore", "ignored/\n")
		b.put("ignored/x.py", "foo ignored\n")
		b.want(b.call("shell", in{"command": "git init -q . && git add a.py && git -c user.name=a -c user.email=a@b commit -qm foo"}), false)
		b.put("gone.py", "foo\n")
		b.want(b.call("shell", in{"command": "git add gone.py && rm gone.py"}), false)
	} else {
		b.put(".git/config", "foo = inside git\n")
	}
	return b
}

func TestSearch(t *testing.T) {
	for _, repository := range []bool{true, false} {
		t.Run(fmt.Sprint("repository ", repository), func(t *testing.T) {
			b := tree(t, repository)
			res := b.call("search", in{"pattern": "foo"})
			b.want(res, false, "a.py:1:def foo():\n", "src/b.py:1:import foo\n", "src/deep/c.ts:1:const foo = 1;\n", "odd␊name:1:.txt:1:foo here\n", "-n:1:foo dash\n", "[7 matching lines]")
			if strings.Contains(res.Text, ".git/") || strings.Contains(res.Text, "ignored") || len(res.Text) > 1000 {
				t.Error(res.Text)
			}
			b.want(b.call("search", in{"pattern": "foo", "glob": "*.py"}), false, "a.py:1:", "src/b.py:1:", "[2 matching lines]")
			b.want(b.call("search", in{"pattern": "foo", "glob": "src/**/*.ts"}), false, "src/deep/c.ts:1:", "[1 matching lines]")
			b.want(b.call("search", in{"pattern": "foo", "path": "src"}), false, "src/b.py:1:", "src/deep/c.ts:1:", "[2 matching lines]")
			b.want(b.call("search", in{"pattern": "foo", "path": "/workspace/src/b.py"}), false, "src/b.py:1:import foo\n", "[1 matching lines]")
			b.want(b.call("search", in{"pattern": "foo", "path": "-n"}), false, "-n:1:foo dash\n")
			b.want(b.call("search", in{"pattern": "foo", "path": "sub/[x].txt"}), false, "sub/[x].txt:1:foo bracket\n")
			b.want(b.call("search", in{"pattern": "^-v$"}), false, "src/b.py:2:-v\n")
			b.want(b.call("search", in{"pattern": "--help"}), false, "No lines match.")
			b.want(b.call("search", in{"pattern": "(foo|bar)\\("}), false, "[2 matching lines]")
			b.want(b.call("search", in{"pattern": "foo", "max": 2}), false, "[2 of 7 matching lines shown")
			b.want(b.call("search", in{"pattern": "foo("}), true, "not a valid extended regular expression", "Unmatched ( or \\(", "Escape ( )")
			b.want(b.call("search", in{"pattern": "foo", "path": "nope"}), true, "nope does not exist")
			b.want(b.call("search", in{"pattern": "foo", "path": ".git"}), true, "Git's internal directory")
			b.want(b.call("search", in{"pattern": "foo", "glob": "../*"}), true, "points outside")
			b.want(b.call("search", in{"pattern": "$(touch ran)`touch ran`", "glob": "$(touch ran)", "path": "."}), false)
			if _, err := os.Stat(filepath.Join(b.dir, "ran")); err == nil {
				t.Error("a pattern ran")
			}
		})
	}
}

func TestSearchMany(t *testing.T) {
	b := newBench(t)
	b.put("many", strings.Repeat("foo\n", 100_000))
	res := b.call("search", in{"pattern": "foo"})
	b.want(res, false, "[200 of more than 5000 matching lines shown")
	if n := strings.Count(res.Text, "\n"); n != 200 {
		t.Error(n)
	}
}

func TestFind(t *testing.T) {
	for _, repository := range []bool{true, false} {
		t.Run(fmt.Sprint("repository ", repository), func(t *testing.T) {
			b := tree(t, repository)
			b.want(b.call("find", in{"glob": "*.py"}), false, "a.py\nsrc/b.py\n[2 files]")
			b.want(b.call("find", in{"glob": "src/**/*.ts"}), false, "src/deep/c.ts\n[1 files]")
			b.want(b.call("find", in{"glob": "*", "path": "src"}), false, "src/b.py\nsrc/deep/c.ts\n[2 files]")
			b.want(b.call("find", in{"glob": "*.txt"}), false, "odd␊name:1:.txt\n")
			b.want(b.call("find", in{"glob": "-*"}), false, "-n\n[1 files]")
			b.want(b.call("find", in{"glob": "config"}), false, "No files match.")
			b.want(b.call("find", in{"glob": "*", "path": "a.py"}), true, "is not a directory")
			b.want(b.call("find", in{"glob": "*", "path": ".git/.."}), false, "a.py")
		})
	}
}

func TestOutline(t *testing.T) {
	b := newBench(t)
	b.put("a.go", "package a\n\nconst A = 1\n\ntype T struct{}\n\ntype I interface {\n\tM()\n}\n\nfunc (t *T) M() {}\n\nfunc F[X any](x X) {}\n")
	b.want(b.call("outline", in{"path": "a.go"}), false, "3\tconst A\n5\ttype T struct\n7\ttype I interface\n8\t  M\n11\tfunc (*T) M\n13\tfunc F")
	b.put("a.py", "X = 1\nclass A(B):\n    def m(self, *a, k=1, **kw):\n        def inner(): pass\nasync def f(): pass\n")
	b.put("broken.py", "class A:\n    def m(self):\n        pass\n\n    def n(\ndef f():\n")
	b.want(b.call("outline", in{"path": "broken.py"}), false, "1\tclass A\n2\t  def m(self)\n", "6\tdef f()\n[the file could not be parsed and was read line by line")
	b.put("a.ts", `import x from 'y';
export interface I {
  a: string;
}
export default class A extends B {
  private x = 1;
  constructor(private y: number) {
    if (y) { call(function () { return "}" }); }
  }
  async m<T>(t: T): Promise<void> {
    for (const a of b) {
    }
  }
}
/* class No { */
export const f = async (a) => {
  function inner() {}
};
type T<X> = X | null;
enum E { A }
`)
	b.want(b.call("outline", in{"path": "a.ts"}), false,
		"2\tinterface I\n5\tclass A\n7\t  constructor()\n10\t  m()\n16\tf\n17\t  function inner\n19\ttype T<X>\n20\tenum E")
	b.put("a.rs", "fn main() {}\n")
	b.want(b.call("outline", in{"path": "a.rs"}), true, "Use search")
	b.want(b.call("outline", in{"path": "nope.go"}), true, "does not exist")
	b.program("python3")
	b.want(b.call("outline", in{"path": "a.py"}), false, "1\tX =\n2\tclass A\n3\t  def m(self, *a, k, **kw)\n4\t    def inner()\n5\tasync def f()")
}

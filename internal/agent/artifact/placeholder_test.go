package artifact

import (
	"testing"

	"hortus.dev/api"
)

func one(name, src string) api.CodeArtifact {
	return api.CodeArtifact{Files: []api.File{{Path: name, Content: src}}}
}

func TestPlaceholderRefuses(t *testing.T) {
	for _, c := range []struct{ name, src string }{
		{"a.py", "def f():\n    # TODO: implement\n    pass\n"},
		{"a.py", "x = 1  # TODO implement this\n"},
		{"a.py", "# FIXME: add the logic here\n"},
		{"a.py", "# rest of the implementation goes here\n"},
		{"a.py", "# ... rest of the code\n"},
		{"a.py", "# your code here\n"},
		{"a.py", "# Add your code here\n"},
		{"a.py", "# implementation goes here\n"},
		{"a.py", "# ...\n"},
		{"a.py", "# existing code unchanged\n"},
		{"a.py", "# omitted for brevity\n"},
		{"a.py", "# placeholder\n"},
		{"a.py", "def f():\n    raise NotImplementedError\n"},
		{"a.py", "def f():\n    raise NotImplementedError('later')\nf()\n"},
		{"a.py", "def f():\n    \"\"\"Adds.\"\"\"\n    raise NotImplementedError()\n"},
		{"a.py", "class A:\n    def f(self):\n        raise NotImplementedError\nA().f()\n"},
		{"a.py", "def f():\n    pass  # implement\n"},
		{"a.py", "def f():\n    return None  # placeholder\n"},
		{"a.py", "def f():\n    ...\n"},
		{"a.py", "def f(): ...\n"},
		{"a.py", "def f():\n    '''Doc.'''\n    ...\n"},
		{"a.py", "...\n"},
		{"a.js", "function f() {\n  // TODO: implement\n}\n"},
		{"a.js", "function f() {\n  throw new Error(\"not implemented\");\n}\n"},
		{"a.js", "function f() { throw new Error('Not implemented yet') }\n"},
		{"a.mjs", "// rest of the function\n"},
		{"a.js", "/* your code here */\n"},
		{"a.js", "/*\n * TODO: implement the sort\n */\n"},
		{"a.js", "// ...\n"},
		{"a.js", "// ... existing code ...\n"},
		{"a.sh", "# TODO: implement\n"},
	} {
		if Placeholder(one(c.name, c.src)) == "" {
			t.Errorf("%s was not refused:\n%s", c.name, c.src)
		}
	}
}

func TestPlaceholderAccepts(t *testing.T) {
	for _, c := range []struct{ name, src string }{
		{"todo.py", "# A todo list: add items and print them.\ntodo = ['buy milk']\ntodo.append('implement the plan')\nprint('TODO:', todo)\n"},
		{"todo.js", "// The todo list of the user\nconst todos = [];\ntodos.push('TODO: implement');\nconsole.log('// TODO: implement', todos);\n"},
		{"a.py", "print('# TODO: implement')\n"},
		{"a.py", "text = '''\n# TODO: implement\nyour code here\n'''\nprint(text)\n"},
		{"a.py", "print('your code here')\n"},
		{"a.py", "url = 'http://example.com/#todo'\n"},
		{"a.py", "try:\n    x()\nexcept Exception:\n    pass\n"},
		{"a.py", "class Empty(Exception):\n    pass\n"},
		{"a.py", "class Empty(Exception): ...\n"},
		{"a.py", "class Empty(Exception):\n    ...\n"},
		{"a.py", "from abc import ABC, abstractmethod\nclass A(ABC):\n    @abstractmethod\n    def f(self):\n        ...\n"},
		{"a.py", "class Shape:\n    def area(self):\n        raise NotImplementedError\nclass Square(Shape):\n    def area(self):\n        return 4\n"},
		{"a.py", "from typing import Protocol\nclass P(Protocol):\n    def f(self) -> int: ...\n"},
		{"a.py", "def f(x):\n    if x < 0:\n        raise NotImplementedError('negative numbers')\n    return x\n"},
		{"a.py", "x = a[..., 0]\n"},
		{"a.py", "print('...')\n"},
		{"a.py", "def f(*args):\n    print(args)\nf(...)\n"},
		{"a.py", "# The rest of the numbers are odd.\n"},
		{"a.py", "# TODO list manager\nprint(1)\n"},
		{"a.js", "const x = [...y];\nfunction f(...args) {\n  return args;\n}\n"},
		{"a.js", "class Shape {\n  area() {\n    throw new Error('not implemented');\n  }\n}\nclass Square extends Shape {\n  area() {\n    return 4;\n  }\n}\n"},
		{"a.js", "throw new Error('file not found');\n"},
		{"a.js", "const url = 'https://example.com'; // the address\n"},
		{"a.js", "const s = `\n// TODO: implement\n`;\nconsole.log(s);\n"},
		{"README.md", "TODO: implement\n# your code here\n"},
		{"notes.txt", "// TODO: implement\n"},
	} {
		if why := Placeholder(one(c.name, c.src)); why != "" {
			t.Errorf("refused: %s\n%s", why, c.src)
		}
	}
}

func TestKeyComparesWhatRuns(t *testing.T) {
	base := api.CodeArtifact{Language: api.Python, Files: []api.File{{Path: "a", Content: "x\n"}, {Path: "b", Content: "y"}}, Run: "r", Shell: "bash", Output: api.OutputText}
	for name, c := range map[string]struct {
		edit func(a *api.CodeArtifact)
		same bool
	}{
		"note":           {func(a *api.CodeArtifact) { a.Note = "n" }, true},
		"trailing space": {func(a *api.CodeArtifact) { a.Files[0].Content = "x  \n\n" }, true},
		"order":          {func(a *api.CodeArtifact) { a.Files[0], a.Files[1] = a.Files[1], a.Files[0] }, true},
		"default shell":  {func(a *api.CodeArtifact) { a.Shell = "" }, true},
		"content":        {func(a *api.CodeArtifact) { a.Files[0].Content = "z" }, false},
		"indentation":    {func(a *api.CodeArtifact) { a.Files[0].Content = " x\n" }, false},
		"run":            {func(a *api.CodeArtifact) { a.Run = "s" }, false},
		"install":        {func(a *api.CodeArtifact) { a.Install = "s" }, false},
		"timeout":        {func(a *api.CodeArtifact) { a.RunTimeoutMS = 5 }, false},
		"output":         {func(a *api.CodeArtifact) { a.Output = api.OutputJSON }, false},
	} {
		a := base
		a.Files = append([]api.File{}, base.Files...)
		c.edit(&a)
		if got := Key(a) == Key(base); got != c.same {
			t.Errorf("%s: same %v, want %v", name, got, c.same)
		}
	}
}

func FuzzValidate(f *testing.F) {
	for _, p := range []string{"main.py", "a/b.txt", "../x", "/x", "a//b", "a\x00", "a/./b", "\xff"} {
		f.Add(p, "print(1)", "python3 main.py", int64(0))
	}
	f.Fuzz(func(t *testing.T, path, content, run string, ms int64) {
		a := api.CodeArtifact{Language: api.Python, Files: []api.File{{Path: path, Content: content}}, Run: run, RunTimeoutMS: ms}
		Placeholder(a)
		Key(a)
		if Validate(a) != nil {
			return
		}
		if path == "" || path[0] == '/' || len(path) > MaxPath || len(content) > MaxBytes || ms < 0 {
			t.Errorf("accepted %q", path)
		}
		for i := 0; i+1 < len(path); i++ {
			if path[i] == '.' && path[i+1] == '.' && (i == 0 || path[i-1] == '/') && (i+2 == len(path) || path[i+2] == '/') {
				t.Errorf("accepted %q", path)
			}
		}
	})
}

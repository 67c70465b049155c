package toolchain

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/repository/dependency"
)

func tree(files map[string]string) dependency.Tree {
	return dependency.Tree{Paths: slices.Sorted(maps.Keys(files)), Read: func(p string) []byte { return []byte(files[p]) }}
}

func TestRead(t *testing.T) {
	for file, c := range map[string]struct{ text, want string }{
		".tool-versions":      {"# tools\nnodejs 20.11.1 18\nrust 1.75.0 # pinned\nBad! 1\n", "node 20.11.1; rust 1.75.0"},
		".sdkmanrc":           {"# c\njava=17.0.9-tem\nmaven=3.9.6\n", "java 17.0.9-tem; maven 3.9.6"},
		"mise.toml":           {"[tools]\nnode = \"20\"\ngo = [\"1.22\"]\n", "node 20"},
		"rust-toolchain":      {"nightly-2024-01-01\n", "rust nightly-2024-01-01"},
		"rust-toolchain.toml": {"[toolchain]\nchannel = \"1.80\"\n", "rust 1.80"},
		"Cargo.toml":          {"[package]\nname = \"x\"\nrust-version = \"1.68\"\n", "rust >=1.68"},
		".nvmrc":              {"v20.11\n", "node v20.11"},
		".node-version":       {"lts/*\n", "node lts/*"},
		".python-version":     {"3.12.1\n3.11\n", "python 3.12.1"},
		".ruby-version":       {"ruby-3.3.0\n", "ruby 3.3.0"},
		"go.mod":              {"module x\n\ngo 1.24 // old\n\ntoolchain go1.25.1\n", "go >=1.24"},
		"package.json":        {`{"engines":{"node":">=18 <23"},"packageManager":"pnpm@9.1.0+sha512.abc"}`, "node >=18 <23; pnpm 9.1.0"},
		"pyproject.toml":      {"[project]\nrequires-python = \">=3.9,<4\"\n", "python >=3.9,<4"},
		"pom.xml":             {"<properties><maven.compiler.source>1.8</maven.compiler.source></properties>", "java >=8"},
		"Dockerfile":          {"# FROM nothing\nfrom --platform=linux/amd64 golang:1.22 AS build\nFROM scratch\n", "image golang:1.22"},
		".devcontainer.json": {`{ // c
			"image": "mcr.example.org/base:1", /* "image": "no" */ "features": {"ghcr.io/devcontainers/features/node:1": {"version": "20"}, "x/unknown:2": {},},
			"postCreateCommand": ["npm", "ci"],}`, "node 20; image mcr.example.org/base:1; setup npm ci"},
		// What has not the form of its kind is left out.
		".go-version":                     {"$(touch /tmp/x)\n", ""},
		".java-version":                   {"17\x1b[2J\n", ""},
		"Cargo.lock":                      {"anything", ""},
		".devcontainer/devcontainer.json": {`{"image":"${localEnv:X}","build":{"dockerfile":"../../../etc/passwd"}}`, ""},
	} {
		n := Read(tree(map[string]string{file: c.text}))
		var got []string
		for _, need := range n.Toolchains {
			if need.File != file {
				t.Errorf("%s: from %s", file, need.File)
			}
			got = append(got, need.Name+" "+need.Version)
		}
		if n.Image != "" {
			got = append(got, "image "+n.Image)
		}
		if n.Setup != "" {
			got = append(got, "setup "+n.Setup)
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: %q, want %q (%q)", file, got, c.want, n.Notes)
		}
	}
}

func TestFits(t *testing.T) {
	for _, c := range []struct {
		has, want string
		fits      bool
	}{
		{"20.11.1", "20", true}, {"20.11.1", "v20.11", true}, {"20.11.1", "2", false}, {"18.1.0", "20", false},
		{"20.11.1", ">=18 <23", true}, {"24.0.0", ">= 18 < 23", false}, {"17.0.0", "^16 || ^17", true}, {"17.0.0", "^16 || >=18", false},
		{"3.11.2", ">=3.9,<4", true}, {"3.8.1", ">=3.9,<4", false}, {"3.11.2", "~=3.9", false}, {"3.12", "3.12.x", true},
		{"1.95.0", ">=1.68", true}, {"1.63.0", ">=1.68", false}, {"1.95.0", "stable", true}, {"20.1.0", "lts/*", true}, {"20.1.0", "*", true},
		{"16.2.0", "14 - 18", true}, {"20.0.0", "14 - 18", false}, {"", ">=3", true}, {"3.9.0", "!=3.9", false},
	} {
		if got := Fits(c.has, c.want); got != c.fits {
			t.Errorf("Fits(%q, %q) is %v", c.has, c.want, got)
		}
	}
}

func TestCheck(t *testing.T) {
	report := api.TemplateReport{
		Tools: []api.Tool{{Name: "cargo", Install: "apt-get install cargo"}, {Name: "node", Present: true, Version: "18.2.0", Path: "/usr/bin/node", Install: "no"},
			{Name: "go", Present: true, Version: "1.26.0"}, {Name: "mvn", Present: true}, {Name: "javac", Install: "apt-get install default-jdk-headless"}},
		Toolchains: []api.Toolchain{{Name: "rust", Version: "stable-x86_64-unknown-linux-gnu", Setting: "rust@stable"},
			{Name: "node", Version: "v16.0.0", Setting: "node@v16.0.0"}, {Name: "node", Version: "v20.1.0", Setting: "node@v20.1.0"}},
	}
	n := Needs{Toolchains: []Need{{"node", "20", ".nvmrc"}, {"go", ">=1.25", "go.mod"}, {"elixir", "1", ".tool-versions"}}}
	want := map[string]string{"node": "HORTUS_TOOLCHAINS=auto,node@v20.1.0", "cargo": "hortus daemon stop && export HORTUS_TOOLCHAINS=auto,rust@stable, or apt-get install cargo", "go": "", "mvn": "", "javac": "apt-get install default-jdk-headless"}
	got := n.Check(report, "cargo", "mvn", "no-such-program")
	if len(got) != len(want) {
		t.Errorf("%d results: %+v", len(got), got)
	}
	for _, r := range got {
		fix, ok := want[r.Program]
		if !ok || r.Missing != (fix != "") || !strings.Contains(r.Fix, fix) || r.Program == "node" && strings.Contains(r.Fix, "or no") {
			t.Errorf("%+v, want %q", r, fix)
		}
	}
	if text := n.Missing("cargo", report.Toolchains); !strings.Contains(text, "auto,rust@stable") {
		t.Errorf("a gate without cargo: %q", text)
	}
	if text := n.Missing("frob", report.Toolchains); text != "" {
		t.Errorf("a gate without frob: %q", text)
	}
	n.Image, n.ImageFile = "rust:1.80", "Dockerfile"
	if text := n.Missing("frob", nil); text != "hortus task --image rust:1.80 (from Dockerfile)" {
		t.Errorf("with an image: %q", text)
	}
}

// FuzzRead: whatever a repository has, the answer is bounded and has no control characters.
func FuzzRead(f *testing.F) {
	files := []string{".tool-versions", ".sdkmanrc", "mise.toml", "rust-toolchain", "rust-toolchain.toml", "Cargo.toml", ".nvmrc", ".python-version",
		"go.mod", "package.json", "pyproject.toml", "pom.xml", ".devcontainer.json", ".devcontainer/devcontainer.json", "Dockerfile"}
	for i, text := range []string{"node 20\n", "java=17", "[tools]\na=\"1\"", "[", "{\"a\":[1,],}//", "/*", "\"\\", "go 1.2\n", `{"features":{"a/node:1":{"version":"1"}}}`, "FROM a\n"} {
		f.Add(i, text)
	}
	f.Fuzz(func(t *testing.T, i int, text string) {
		file := files[uint(i)%uint(len(files))]
		n := Read(tree(map[string]string{file: text}))
		if len(n.Toolchains) > maxNeeds || len(n.Setup) > maxText || len(n.Image) > 200 {
			t.Fatalf("%+v", n)
		}
		for _, need := range n.Toolchains {
			if !name.MatchString(need.Name) || !version.MatchString(need.Version) {
				t.Fatalf("%+v", need)
			}
			Fits("1.2.3", need.Version)
		}
	})
}

package story

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/platform/language"
	"hortus.dev/test/tier"
)

// answers are programs that print 42, each in its language and without a command of its
// own: the plan's commands compile and run them.
var answers = map[api.Language]string{
	api.Python:     "print(6 * 7)\n",
	api.JavaScript: "console.log(6 * 7)\n",
	api.TypeScript: "const six: number = 6\nconsole.log(six * 7)\n",
	api.Go:         "package main\n\nimport \"syscall\"\n\nfunc main() { syscall.Write(1, []byte(\"42\\n\")) }\n", // its compiler has no cache
	api.Rust:       "fn main() { println!(\"{}\", 6 * 7); }\n",
	api.Java:       "public class Main { public static void main(String[] args) { System.out.println(6 * 7); } }\n",
	api.C:          "#include <stdio.h>\nint main(void) { printf(\"%d\\n\", 6 * seven); return 0; }\n",
	api.CPlusPlus:  "#include <iostream>\nint main() { std::cout << 6 * 7 << std::endl; }\n",
	api.Bash:       "echo $((6 * 7))\n",
	api.Ruby:       "puts 6 * 7\n",
	api.PHP:        "<?php echo 6 * 7, \"\\n\";\n",
	api.Perl:       "print 6 * 7, \"\\n\";\n",
}

// TestLanguages has a model write a program in every language. Where its toolchain is on
// this machine the program is verified; elsewhere the message says what is missing and what
// is there. The one in C does not compile at first, and is repaired.
func TestLanguages(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	g.env = append(g.env, "HORTUS_IDLE=1m", "HORTUS_INSTALL_TIMEOUT=5m") // for a compiler on a busy machine
	doctor := decode[admin.Doctor](t, g.must("doctor", "--json"))
	tools := doctor.Template.Tools
	var there []language.Language
	for _, l := range language.All() {
		if l.Lacks(tools) == "" {
			there = append(there, l)
		}
	}
	// That of TypeScript is known when it runs: an old Node needs tsc.
	stripped := func(t api.Tool) bool {
		return t.Name == "tsc" && t.Present || t.Name == "node" && atLeast(t.Version, 22, 18)
	}
	typed := slices.ContainsFunc(tools, stripped)
	all := slices.DeleteFunc(slices.Clone(language.All()), func(l language.Language) bool {
		return !tier.Soaking() && !slices.Contains([]api.Language{api.Bash, api.Python, api.C}, l.Name) // the others are seconds each
	})
	var scenario strings.Builder
	for _, l := range all {
		plan := fmt.Sprintf(`{"language":%q,"shell":"bash","task":"print the product of six and seven","output":"text"}`, l.Name)
		fmt.Fprintf(&scenario, "-- plan %s --\nanswer: output\noutput: ExecutionPlan\n\n%s\n", l.Title, plan)
		if l.Lacks(tools) != "" {
			continue
		}
		fmt.Fprintf(&scenario, "-- code %s --\nanswer: output\noutput: CodeArtifact\nexpect: %s\n\n%s\n", l.Title, l.Run, artifactJSON(t, l, answers[l.Name]))
		if l.Name == api.TypeScript && !typed {
			fmt.Fprintf(&scenario, "-- no TypeScript --\nanswer: output\noutput: Diagnosis\nexpect: TypeScript needs Node 22.18 or newer, or tsc\n\n"+
				`{"category":"command_not_found","cause":"there is no tsc","question":"Shall it be installed?"}`+"\n")
		}
		if l.Name == api.C {
			fmt.Fprintf(&scenario, "-- repair C --\nanswer: output\noutput: Diagnosis\nexpect: 'seven' undeclared\n\n"+
				`{"category":"undefined_name","cause":"seven is not declared","artifact":%s}`+"\n",
				artifactJSON(t, l, strings.ReplaceAll(answers[l.Name], "seven", "7")))
		}
	}
	withModels(t, g, scenario.String())
	withKeys(g, modelKey)
	for _, l := range all {
		r := g.patient("run", "--model", "anthropic", "six times seven, in "+l.Title)
		if lacks := l.Lacks(tools); lacks != "" {
			t.Logf("%s is not tried: this machine has no %s", l.Title, lacks)
			if r.code != 1 || !strings.Contains(r.stderr, lacks+" is not installed") || !strings.Contains(r.stderr, "apt install "+l.Package) {
				t.Errorf("%s: %s", l.Title, r)
			}
			for _, other := range there {
				if !strings.Contains(r.stderr, other.Title) {
					t.Errorf("%s is there, and not told: %s", other.Title, r.stderr)
				}
			}
			continue
		}
		if l.Name == api.TypeScript && !typed {
			t.Logf("TypeScript is not tried: this machine has no tsc and no Node 22.18")
			if r.code != 1 || !strings.Contains(r.stderr, "Shall it be installed?") {
				t.Errorf("TypeScript: %s", r)
			}
			continue
		}
		if r.code != 0 || strings.TrimSpace(r.stdout) != "42" || !strings.Contains(r.stderr, "verified") {
			t.Errorf("%s: %s", l.Title, r)
		}
		if l.Name == api.C && !strings.Contains(r.stderr, "compile: exit 1") {
			t.Errorf("the failed compilation is not told: %s", r.stderr)
		}
	}
	if !slices.ContainsFunc(there, func(l language.Language) bool { return l.Name == api.Bash }) {
		t.Errorf("not even Bash is there: %+v", tools)
	}
}

// artifactJSON is an artifact of one file, without commands.
func artifactJSON(t *testing.T, l language.Language, src string) string {
	t.Helper()
	b, err := json.Marshal(map[string]any{"language": l.Name, "files": []api.File{{Path: l.Main, Content: src}}, "run": ""})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// atLeast reports whether a version is that one or newer.
func atLeast(version string, major, minor int) bool {
	var a, b int
	if n, err := fmt.Sscanf(version, "%d.%d", &a, &b); n != 2 || err != nil {
		return false
	}
	return a > major || a == major && b >= minor
}

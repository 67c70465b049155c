package offline

import (
	"testing"

	"hortus.dev/api"
)

// The language of a given program: by name, by fence, by how it looks.
func TestGivenLanguage(t *testing.T) {
	const goSource = "package main\nimport \"fmt\"\nfunc main() { fmt.Println(6 * 7) }\n"
	for sentence, want := range map[string]api.Language{
		"Run this Go: package main; func main() { println(6 * 7) }":                 api.Go,
		"Run this Go program: " + goSource:                                          api.Go,
		"Run this:\n```go\n" + goSource + "```":                                     api.Go,
		"Run this:\n```\n" + goSource + "```":                                       api.Go,
		"Run this golang code: " + goSource:                                         api.Go,
		"Run this Rust: fn main() { println!(\"{}\", 42); }":                        api.Rust,
		"Run this: fn main() { println!(\"{}\", 42); }":                             api.Rust,
		"Run this Java program: class A { public static void main(String[] a) {} }": api.Java,
		"Run this C: int main(void) { return 0; }":                                  api.C,
		"Run this C program: int main(void) { return 0; }":                          api.C,
		"Run this C++: int main() { return 0; }":                                    api.CPlusPlus,
		"Run this: #include <iostream>\nint main() { std::cout << 1; }":             api.CPlusPlus,
		"Run this: #include <stdio.h>\nint main() { puts(\"x\"); }":                 api.C,
		"Run this Bash: echo $((6 * 7))":                                            api.Bash,
		"Run this script: #!/bin/sh\necho 42":                                       api.Bash,
		"Run this Ruby: puts(6 * 7)":                                                api.Ruby,
		"Run this PHP: <?php echo 6 * 7;":                                           api.PHP,
		"Run this: <?php echo 6 * 7;":                                               api.PHP,
		"Run this Perl: print 6 * 7, \"\\n\";":                                      api.Perl,
		"Run this TypeScript: const n: number = 42; console.log(n)":                 api.TypeScript,
		"Run this JavaScript: console.log(42)":                                      api.JavaScript,
		"Run this: console.log(42)":                                                 api.JavaScript,
		"Run this Python: print(42)":                                                api.Python,
		"Run this: print(42)":                                                       api.Python,
	} {
		p, err := givenProgram(sentence)
		if err != nil || p == nil || p.Language != want {
			t.Errorf("%q: %+v, %v; want %s", sentence, p, err, want)
		}
	}
	for _, sentence := range []string{"Run this C# program: class A { static void Main() {} }", "Run this:\n```cobol\nDISPLAY \"x\".\n```"} {
		if p, err := givenProgram(sentence); api.KindOf(err) != api.KindDeclined {
			t.Errorf("%q: %+v, %v", sentence, p, err)
		}
	}
}

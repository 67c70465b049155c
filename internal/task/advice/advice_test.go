package advice

import (
	"context"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/observe"
)

func TestAdvice(t *testing.T) {
	python := func(path string) func(context.Context, api.CreateSandbox) ([]api.Tool, error) {
		return func(context.Context, api.CreateSandbox) ([]api.Tool, error) {
			return []api.Tool{{Name: "python3", Path: path, Present: true}}, nil
		}
	}
	debian, plain := Adviser{python("/usr/bin/python3"), true}, Adviser{python("/usr/bin/python3"), false}
	for _, c := range []struct {
		name    string
		adviser Adviser
		req     api.CreateSandbox
		lack    observe.Lack
		says    []string
	}{
		{"known library", debian, api.CreateSandbox{}, observe.Lack{Language: api.Python, Name: "pandas"}, []string{"no Python library pandas", "--setup-egress pip", "Run on the daemon's machine: apt-get install python3-pandas."}},
		{"name of the import", debian, api.CreateSandbox{}, observe.Lack{Language: api.Python, Name: "cv2"}, []string{"apt-get install python3-opencv."}},
		{"another Python", Adviser{python("/usr/local/bin/python3"), true}, api.CreateSandbox{}, observe.Lack{Language: api.Python, Name: "numpy"}, []string{"python3 -m pip install numpy"}},
		{"unknown library", debian, api.CreateSandbox{}, observe.Lack{Language: api.Python, Name: "My_Own.thing"}, []string{"apt-cache search python3-my-own.thing", "add it to the files"}},
		{"npm's library", debian, api.CreateSandbox{}, observe.Lack{Language: api.JavaScript, Name: "@scope/part"}, []string{"JavaScript library @scope/part", "apt-cache search node-scope-part"}},
		{"command", debian, api.CreateSandbox{}, observe.Lack{Name: "cargo"}, []string{"no command cargo", "apt-get install cargo."}},
		{"command of a language", debian, api.CreateSandbox{}, observe.Lack{Name: "php"}, []string{"apt-get install php-cli."}},
		{"unknown command", debian, api.CreateSandbox{}, observe.Lack{Name: "frob"}, []string{"apt-cache search frob"}},
		{"pip", debian, api.CreateSandbox{}, observe.Lack{Installer: "pip"}, []string{"pip could not install", "PEP 668", "apt-get install python3-NAME"}},
		{"go", debian, api.CreateSandbox{}, observe.Lack{Installer: "go"}, []string{"go could not download modules", "--egress go", "go mod vendor"}},
		{"no Debian", plain, api.CreateSandbox{}, observe.Lack{Language: api.Python, Name: "pandas"}, []string{"below /usr on the daemon's machine"}},
		{"another template", debian, api.CreateSandbox{Template: "numbers"}, observe.Lack{Name: "jq"}, []string{"apt-get install jq.", `create the template "numbers" again`}},
	} {
		got := c.adviser.Advise(t.Context(), c.req, c.lack)
		for _, want := range append(c.says, "hortus doctor") {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is not in %q", c.name, want, got)
			}
		}
		if c.adviser.Debian == false && strings.Contains(got, "apt") {
			t.Errorf("%s: %q names packages of Debian", c.name, got)
		}
	}
}

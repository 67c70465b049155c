package inventory

import (
	"bytes"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
)

// TestScript runs what is asked, on this machine.
func TestScript(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", Script())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	if stderr.Len() > 0 {
		t.Errorf("complaints: %s", stderr.String())
	}
	a := Read(out)
	if !a.Whole {
		t.Errorf("it did not come to its end:\n%s", out)
	}
	for _, tool := range tools {
		program, _, _ := strings.Cut(tool.ask, " ")
		if program == "" {
			continue
		}
		// A program may be there and fail; those that every machine's tests need do not.
		if _, err := exec.LookPath(program); err == nil && a.Versions[tool.name] == "" {
			if slices.Contains([]string{"bash", "python3", "node", "git", "gcc"}, tool.name) {
				t.Errorf("%s is there and has no version", tool.name)
			} else {
				t.Logf("%s is there and has no version", tool.name)
			}
		} else if err != nil && a.Versions[tool.name] != "" {
			t.Errorf("%s is not there and has the version %s", tool.name, a.Versions[tool.name])
		}
	}
	for program, language := range map[string]api.Language{"python3": api.Python, "node": api.JavaScript} {
		if _, err := exec.LookPath(program); (err == nil) != slices.Contains(a.Asked, language) {
			t.Errorf("%s: found %v, but asked were %v", program, err == nil, a.Asked)
		}
	}
}

const printed = `tool gcc gcc (Debian 12.2.0-14+deb12u1) 12.2.0 Copyright (C) 2022
tool java openjdk version "17.0.15" 2025-04-15
tool go go version go1.26.8 linux/amd64
tool perl v5.36.0
tool jq jq-1.6
tool git no version
tool nothing 1.2
tool rustc 1.` + "1111111111111111111111111111111111111111111111111111111111111111111" + `
asked python
asked python
asked cobol
library python requests 2.28.1
library python Numpy 1.24.2
library python pip 23.0.1
library python two words 1
library python bad/../name! 1
library python evil ` + "\x1b[31m1" + `
library cobol x 1
asked javascript
command javascript npm 11.19.1
command javascript typescript 5.9.2
`

func TestRead(t *testing.T) {
	a := Read([]byte(printed))
	want := map[string]string{"gcc": "12.2.0", "java": "17.0.15", "go": "1.26.8", "perl": "5.36.0", "jq": "1.6"}
	for _, name := range append(slices.Collect(maps.Keys(want)), "git", "nothing", "rustc") {
		if a.Versions[name] != want[name] {
			t.Errorf("%s has version %q, want %q", name, a.Versions[name], want[name])
		}
	}
	if !slices.Equal(a.Asked, []api.Language{api.Python, api.JavaScript}) {
		t.Errorf("asked %q", a.Asked)
	}
	var names []string
	for _, l := range a.Libraries {
		names = append(names, l.Name)
	}
	if got := strings.Join(names, " "); got != "npm typescript Numpy pip requests" {
		t.Errorf("libraries %q", got)
	}
	if a.Whole || !Read([]byte(printed+"done\n")).Whole {
		t.Error("whole without done, or not with it")
	}
	if Read([]byte("done " + strings.Repeat("x", MaxOutput) + "\ndone\n")).Whole {
		t.Error("what comes after the bound was read")
	}
}

func TestFill(t *testing.T) {
	report := func(python string) api.TemplateReport {
		return api.TemplateReport{Tools: []api.Tool{
			{Name: "python3", Path: python, Present: true}, {Name: "node", Path: "/usr/bin/node", Present: true},
			{Name: "gcc", Path: "/usr/bin/gcc", Present: true}, {Name: "npm", Path: "/usr/bin/npm", Present: true},
			{Name: "git"}, {Name: "tsc"},
		}}
	}
	for _, test := range []struct {
		name, python string
		debian       bool
		extra        string
		git, tsc     string
		pandas, ts   string
	}{
		{"Debian", "/usr/bin/python3", true, "debian node\n", "apt-get install git", "apt-get install node-typescript",
			"apt-get install python3-pandas", "apt-get install node-typescript"},
		{"Debian with another Node", "/usr/bin/python3", true, "", "apt-get install git", "npm install -g typescript",
			"apt-get install python3-pandas", ""},
		{"Debian with another Python", "/opt/python/bin/python3", true, "", "apt-get install git", "npm install -g typescript",
			"python3 -m pip install pandas", ""},
		{"elsewhere", "/usr/bin/python3", false, "", "", "npm install -g typescript", "python3 -m pip install pandas", ""},
	} {
		r := report(test.python)
		Read([]byte(printed+test.extra+"done\n")).Fill(&r, test.debian)
		tool := func(name string) api.Tool {
			return r.Tools[slices.IndexFunc(r.Tools, func(x api.Tool) bool { return x.Name == name })]
		}
		if got := tool("gcc"); got.Version != "12.2.0" || got.Install != "" {
			t.Errorf("%s: gcc %+v", test.name, got)
		}
		if got := tool("npm").Version; got != "11.19.1" {
			t.Errorf("%s: npm %s", test.name, got)
		}
		if got := tool("git").Install; got != test.git {
			t.Errorf("%s: git: %q", test.name, got)
		}
		if got := tool("tsc").Install; got != test.tsc {
			t.Errorf("%s: tsc: %q", test.name, got)
		}
		libraries := map[string]api.Library{}
		for _, l := range r.Libraries {
			if _, twice := libraries[l.Name]; twice {
				t.Errorf("%s: %s stands twice", test.name, l.Name)
			}
			libraries[l.Name] = l
		}
		if l := libraries["numpy"]; !l.Present || l.Version != "1.24.2" || !l.Common {
			t.Errorf("%s: numpy %+v", test.name, l)
		}
		if l := libraries["pandas"]; l.Present || l.Install != test.pandas {
			t.Errorf("%s: pandas %+v", test.name, l)
		}
		// A global install of npm's serves its command alone.
		if l := libraries["typescript"]; l.Present || l.Install != test.ts {
			t.Errorf("%s: typescript %+v", test.name, l)
		}
		if l := libraries["pip"]; !l.Present || l.Common {
			t.Errorf("%s: pip %+v", test.name, l)
		}
	}
	// A machine without a language is not told to install its libraries.
	var r api.TemplateReport
	Read([]byte("done\n")).Fill(&r, true)
	if len(r.Libraries) != 0 || len(r.Asked) != 0 {
		t.Errorf("libraries of nothing: %+v", r)
	}
}

// FuzzRead: whatever a sandbox prints, what is read of it is bounded and clean.
func FuzzRead(f *testing.F) {
	f.Add([]byte(printed))
	f.Add([]byte("library python a \n\x00\nlibrary  python\tx 1.0\rdone\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		a := Read(out)
		if len(a.Libraries) > maxLibraries || len(a.Versions) > len(tools) || len(a.Asked) > 2 {
			t.Fatalf("%d libraries, %d versions, %d languages", len(a.Libraries), len(a.Versions), len(a.Asked))
		}
		for _, l := range a.Libraries {
			if !nameForm.MatchString(l.Name) || !versionForm.MatchString(l.Version) || len(l.Name) > maxName || len(l.Version) > maxVersion {
				t.Errorf("%+v", l)
			}
		}
		for _, v := range a.Versions {
			if strings.Trim(v, "0123456789.") != "" || len(v) > maxVersion {
				t.Errorf("version %q", v)
			}
		}
		a.Fill(&api.TemplateReport{Tools: []api.Tool{{Name: "npm", Present: true}}}, true)
	})
}

package observe

import (
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestUninstalled(t *testing.T) {
	for _, c := range []struct {
		lang   api.Language
		output string
		want   Uninstall
		says   string
	}{
		{api.JavaScript, "npm error code E404\nnpm error 404 Not Found - GET https://registry.example.org/left-padx - Not found\nnpm error 404\nnpm error 404  'left-padx@*' is not in this registry.\n",
			Uninstall{true, "npm", "left-padx", true, false}, "has no package left-padx"},
		{api.JavaScript, "npm error code E404\nnpm error 404 Not Found - GET https://registry.example.org/@a%2fb - Not found\nnpm error 404  The requested resource '@a/b@*' could not be found or you do not have permission\n",
			Uninstall{true, "npm", "@a/b", true, false}, "has no package @a/b"},
		{api.JavaScript, "npm error code ETARGET\nnpm error notarget No matching version found for wonder@^9.\n", Uninstall{true, "npm", "wonder", true, false}, "no version"},
		{api.JavaScript, "npm error code ENOTFOUND\nnpm error network request to https://registry.example.org/wonder failed, reason: getaddrinfo ENOTFOUND\n", Uninstall{true, "npm", "wonder", false, true}, "cannot reach"},
		{api.Python, "ERROR: Could not find a version that satisfies the requirement wonder (from versions: none)\nERROR: No matching distribution found for wonder\n", Uninstall{true, "pip", "wonder", true, false}, "has no package wonder"},
		{api.Python, "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)': /simple/wonder/\nERROR: No matching distribution found for wonder==1.0\n", Uninstall{true, "pip", "wonder", false, true}, "cannot reach"},
		{api.Python, "/usr/bin/python3: No module named pip\n", Uninstall{true, "pip", "", false, false}, "python3-pip"},
		{api.Go, "go: main imports\n\texample.org/nope: module example.org/nope: reading http://proxy.example.org/example.org/nope/@v/list: 404 Not Found\n", Uninstall{true, "go", "example.org/nope", true, false}, "example.org/nope"},
		{api.Go, "go: example.org/a/b: module example.org/a/b: Get \"https://proxy.example.org/x\": dial tcp: lookup proxy.example.org: no such host\n", Uninstall{true, "go", "example.org/a/b", false, true}, "cannot reach"},
		{api.Python, "make: *** [x] Error 1", Uninstall{}, ""},
		{api.JavaScript, "npm error code E404\nnpm error 404  '$(rm -rf ~)@*' is not in this registry.\n", Uninstall{true, "npm", "", true, false}, "that was requested"},
	} {
		got := Uninstalled(c.lang, c.output)
		if got != c.want || !strings.Contains(got.Sentence(""), c.says) {
			t.Errorf("%q:\n%+v, want %+v; %s", c.output, got, c.want, got.Sentence(""))
		}
	}
	u := Uninstall{Failed: true, Installer: "pip", Package: "wonder", Offline: true}
	if s := u.Sentence("it is closed"); !strings.HasSuffix(s, "wonder could not be installed: it is closed") {
		t.Error(s)
	}
}

func FuzzUninstalled(f *testing.F) {
	f.Add("npm error 404  'a@*' is not in this registry.")
	f.Add("ERROR: No matching distribution found for x")
	f.Fuzz(func(t *testing.T, output string) {
		for _, l := range []api.Language{api.Python, api.JavaScript, api.Go} {
			if u := Uninstalled(l, output); len(u.Package) > maxName || strings.ContainsAny(u.Package, " \n'\"$`") {
				t.Errorf("package %q", u.Package)
			}
		}
	})
}

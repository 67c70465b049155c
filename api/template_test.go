package api

import (
	"fmt"
	"testing"
)

func TestMissing(t *testing.T) {
	r := TemplateReport{
		Asked: []Language{Python},
		Libraries: []Library{
			{Language: Python, Name: "numpy", Common: true, Install: "apt-get install python3-numpy"},
			{Language: Python, Name: "requests", Version: "2.28.1", Present: true, Common: true},
			{Language: Python, Name: "PyYAML", Version: "6.0", Present: true},
			{Language: Python, Name: "scikit_learn", Version: "1.2", Present: true},
			{Language: JavaScript, Name: "@types/node", Version: "1", Present: true},
		},
	}
	for _, test := range []struct {
		language Language
		deps     []string
		want     string
	}{
		{Python, nil, ""},
		{Python, []string{"requests", "Requests>=2", "requests[socks]==2.1", " requests ; python_version>'3'", "requests @ x"}, ""},
		{Python, []string{"yaml", "pyyaml", "sklearn", "scikit-learn", "Scikit.Learn~=1.0"}, ""},
		{Python, []string{"numpy>=1", "numpy"}, "numpy (apt-get install python3-numpy)"},
		{Python, []string{"cv2", "", " "}, "cv2 ()"},
		{JavaScript, []string{"left-pad"}, ""}, // nobody asked
	} {
		got := ""
		for _, m := range r.Missing(test.language, test.deps) {
			got += fmt.Sprintf("%s (%s)", m.Name, m.Install)
			if m.Language != test.language || m.Present {
				t.Errorf("%q: %+v", test.deps, m)
			}
		}
		if got != test.want {
			t.Errorf("%s %q: missing %q, want %q", test.language, test.deps, got, test.want)
		}
	}
	r.Asked = append(r.Asked, JavaScript)
	got := r.Missing(JavaScript, []string{"@types/node@20", "@types/node", "typescript@5", "Typescript"})
	if len(got) != 2 || got[0].Name != "typescript" || got[1].Name != "Typescript" {
		t.Errorf("missing %+v", got)
	}
}

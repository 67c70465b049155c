package history

import (
	"bytes"
	"strings"
	"testing"

	"hortus.dev/api"
)

const stream = `feature done
reset refs/heads/main
commit refs/heads/main
mark :1
author A <a@example.org> 1 +0000
committer A <a@example.org> 1 +0000
data 34
M 100644 0000 .env is not a change
M 100644 1111111111111111111111111111111111111111 .env
M 100644 2222222222222222222222222222222222222222 a b
M 100755 3333333333333333333333333333333333333333 "s\303\274\t\"x\""

commit refs/heads/main
mark :2
author A <a@example.org> 1 +0000
committer A <a@example.org> 1 +0000
data 0
from :1
D .env
M 100644 4444444444444444444444444444444444444444 "keys/\303\274.key"
D x

done
`

func TestFilter(t *testing.T) {
	var out bytes.Buffer
	var seen []string
	n, err := Filter(&out, strings.NewReader(stream), func(p string) bool {
		seen = append(seen, p)
		return p == ".env" || strings.HasSuffix(p, ".key")
	})
	if err != nil || n != 3 {
		t.Errorf("%d left out, %v", n, err)
	}
	if got, want := strings.Join(seen, "|"), ".env|a b|sü\t\"x\"|.env|keys/ü.key|x"; got != want {
		t.Errorf("paths %q, want %q", got, want)
	}
	want := stream
	for _, gone := range []string{"M 100644 1111111111111111111111111111111111111111 .env\n", "D .env\n", "M 100644 4444444444444444444444444444444444444444 \"keys/\\303\\274.key\"\n"} {
		want = strings.Replace(want, gone, "", 1)
	}
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", &out, want)
	}
}

func TestRefuse(t *testing.T) {
	for _, text := range []string{
		"C a .env2\n", "R .env x\n", "deleteall\n", "ls x\n", "blob\n", "N x y\n", "tag v1\n", "get-mark :1\n", "option x\n",
		"M 100644 inline x\n", "M 100644 :3 x\n", "M 040000 1 dir\n", "M 100644 1\n", "M 100644 1 \n", "D \n", `D "` + "\n", `D ""` + "\n", `D "a` + "\n", `D "a"b` + "\n",
		`D "\"` + "\n", `D "\4"` + "\n", `D "\999"` + "\n", `D "\777"` + "\n", `D "\q11"` + "\n", "data x\n", "data -1\n", "data 5\nabc", "D x", "D " + strings.Repeat("x", maxLine) + "\n",
	} {
		var out bytes.Buffer
		if _, err := Filter(&out, strings.NewReader(text), func(string) bool { return false }); api.KindOf(err) != api.KindUnsupported {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

func FuzzFilter(f *testing.F) {
	f.Add([]byte(stream))
	f.Add([]byte("data 3\nabc\nM 100644 11 \"\\\\\\\"\\001\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var all, none bytes.Buffer
		if _, err := Filter(&all, bytes.NewReader(text), func(string) bool { return false }); err == nil && !bytes.Equal(all.Bytes(), text) {
			t.Errorf("what is not filtered has changed: %q became %q", text, all.Bytes())
		}
		if _, err := Filter(&none, bytes.NewReader(text), func(p string) bool { return true }); err == nil && none.Len() > len(text) {
			t.Errorf("it has grown: %q", none.Bytes())
		}
	})
}

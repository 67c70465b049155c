//go:build linux

package sudo

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	none := map[string]string{}
	for line, want := range map[string]options{
		"id -u":                      {env: none, args: []string{"id", "-u"}},
		"-n -- -x":                   {env: none, args: []string{"-x"}},
		"-u user id":                 {env: none, user: "user", args: []string{"id"}},
		"-uuser id":                  {env: none, user: "user", args: []string{"id"}},
		"-u #0 id":                   {env: none, user: "root", args: []string{"id"}},
		"--user=user id":             {env: none, user: "user", args: []string{"id"}},
		"--user user id":             {env: none, user: "user", args: []string{"id"}},
		"-nEHu user id":              {env: none, user: "user", keepEnv: true, args: []string{"id"}},
		"--preserve-env=A,B id":      {env: none, keep: []string{"A", "B"}, args: []string{"id"}},
		"--preserve-env id":          {env: none, keepEnv: true, args: []string{"id"}},
		"A=1 B=2=3 id C=4":           {env: map[string]string{"A": "1", "B": "2=3"}, args: []string{"id", "C=4"}},
		"/opt/a=b/c":                 {env: none, args: []string{"/opt/a=b/c"}},
		"-i":                         {env: none, login: true, args: []string{}},
		"-s id":                      {env: none, shell: true, args: []string{"id"}},
		"-D /tmp -p text id":         {env: none, dir: "/tmp", args: []string{"id"}},
		"--chdir=/tmp --set-home id": {env: none, dir: "/tmp", args: []string{"id"}},
		"-v":                         {env: none, done: true, args: []string{}},
	} {
		got, err := parse(strings.Fields(line))
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%q: %+v, %v; want %+v", line, got, err, want)
		}
	}
	for line, says := range map[string]string{
		"": "missing command", "-n": "missing command", "A=1": "missing command", "-z id": "unknown option -z", "-u": "needs a value", "--user": "needs a value",
		"--login=x id": "takes no value", "--what id": "unknown option --what", "-i -s": "cannot be combined", "-b id": "unknown option -b", "-g x id": "unknown option -g",
	} {
		if _, err := parse(strings.Fields(line)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q", line, err, says)
		}
	}
}

func TestScript(t *testing.T) {
	if got := script([]string{"echo", "it's", "$HOME"}); !reflect.DeepEqual(got, []string{"-c", `'echo' 'it'\''s' '$HOME'`}) {
		t.Errorf("%q", got)
	}
}

// FuzzDecode: the size of messages is limited, and Decode reads what Encode wrote.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Add([]byte("\xff\xff\xff\xff{}"))
	for _, r := range []Request{{Args: []string{"rm", "a\xff", ""}, Dir: "/\xfe"}, {User: "user", Args: []string{"id"}, Env: map[string]string{"A": "\xff=", "": ""}, Terminal: true}} {
		b, err := Encode(&r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var req, again Request
		if Decode(bytes.NewReader(b), &req) != nil {
			return
		}
		out, err := Encode(&req)
		if err != nil {
			t.Fatal(err)
		}
		if err := Decode(bytes.NewReader(out), &again); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(req, again) {
			t.Errorf("%+v is read back as %+v", req, again)
		}
	})
}

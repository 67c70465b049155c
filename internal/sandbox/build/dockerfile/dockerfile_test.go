package dockerfile

import (
	"fmt"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/build"
)

// TestParse: what the steps are, as one line each.
func TestParse(t *testing.T) {
	const text = `# syntax=docker/dockerfile:1
ARG BASE=python
ARG TAG=3.12
FROM ${BASE}:$TAG AS Make
ARG VERSION=1
ENV A=1 B="two words" C=it\'s
ENV LEGACY two  words
WORKDIR /src
copy --chown=user --chmod=755 a.c "b c.c" ./
RUN make \
    # a comment between
    -j2 && \

    make install
FROM host
ARG TAG
COPY --from=make ["/usr/local/bin/x", "/bin/"]
RUN ["x", "--help"]
SHELL ["/bin/bash", "-c"]
USER user
EXPOSE 80
CMD ["-v"]
HEALTHCHECK CMD x
ENTRYPOINT ["x"]
RUN <<EOF
set -e

# a line of the script
  x
EOF
RUN --mount=type=cache,target=/c --mount=type=secret,id=T,env=TOKEN --mount=type=secret,id=none,uid=5 cat <<-"A" <<B >f
	a
	A
b
B
COPY --link --chmod=755 <<EOF <<"raw" b.c /etc/
X=$A
EOF
$A
raw
RUN <<'E'
#!/usr/bin/env python3
print(1)
E
ADD a.tgz /opt`
	f, err := Parse(text, Options{Args: map[string]string{"TAG": "slim", "VERSION": "$9"}, Files: "f", Secrets: map[string]string{"T": "token"}})
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, s := range f.Stages {
		fmt.Fprintf(&got, "%d FROM %s %q\n", s.Line, s.From, s.Name)
		for _, p := range s.Steps {
			fmt.Fprintf(&got, "%d %s %q", p.Line, p.Op, p.Args)
			for _, more := range []struct {
				set  bool
				text string
			}{{p.Exec, "exec"}, {p.Expand, "expand"}, {p.User != "", p.User}, {p.From != "", "from " + p.From}, {p.Mode != nil, "mode"}, {p.Unpack, "unpack"}, {p.Here != nil, fmt.Sprintf("%#v", p.Here)}, {p.Secrets != nil, fmt.Sprint(p.Secrets)}} {
				if more.set {
					got.WriteString(" " + more.text)
				}
			}
			got.WriteByte('\n')
		}
	}
	const want = `4 FROM python:slim "Make"
5 ARG ["VERSION" "$9"]
6 ENV ["A" "1" "B" "\"two words\"" "C" "it\\'s"] expand
7 ENV ["LEGACY" "two  words"] expand
8 WORKDIR ["/src"] expand
9 COPY ["a.c" "\"b c.c\"" "./"] expand user mode
10 RUN ["make     -j2 &&     make install"]
15 FROM host ""
16 ARG ["TAG" "slim"]
17 COPY ["/usr/local/bin/x" "/bin/"] root from make
18 RUN ["x" "--help"] exec
19 SHELL ["/bin/bash" "-c"]
20 USER ["user"] expand
25 RUN ["set -e\n\n# a line of the script\n  x\n"]
31 RUN ["cat <<-\"A\" <<B >f\na\nA\nb\nB\n"] [{token  TOKEN 256}]
36 COPY ["b.c" "/etc/"] expand root mode []build.Here{build.Here{Name:"EOF", Text:"X=$A\n", Expand:true}, build.Here{Name:"raw", Text:"$A\n", Expand:false}}
41 RUN ["f=$(mktemp) && cat >\"$f\" <<'E'\n#!/usr/bin/env python3\nprint(1)\nE\n/usr/bin/env python3 \"$f\"; c=$?; rm -f \"$f\"; exit $c"]
45 COPY ["a.tgz" "/opt"] expand root unpack
24 ENTRYPOINT ["x"] exec
22 CMD ["-v"] exec
`
	if got.String() != want {
		t.Errorf("steps:\n%swant:\n%s", got.String(), want)
	}
	notes := strings.Join(f.Notes, "\n")
	for _, want := range []string{"line 21: EXPOSE", "line 23: HEALTHCHECK", "line 31: RUN --mount=type=cache", `line 31: RUN runs without the secret "none"`} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes: %s, want %q", notes, want)
		}
	}
	if f, err := Parse(text, Options{Target: "make", Files: "f"}); err != nil || len(f.Stages) != 1 || len(f.Notes) != 0 {
		t.Errorf("target: %d stages, notes %q, %v", len(f.Stages), f.Notes, err)
	}
}

// TestRefused: what is not supported is an error with the instruction and its line, and is not ignored.
func TestRefused(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "no FROM"},
		{"RUN x", "line 1: RUN: only ARG"},
		{"FROM host\n\nADD https://x.example/a b", "line 3: ADD: the source"},
		{"FROM host\nONBUILD RUN x", "line 2: ONBUILD"},
		{"FROM host\nRUN --mount=type=secret,id=k,required cat /run/secrets/k", `line 2: RUN: it requires the secret "k"`},
		{"FROM host\nRUN --mount=type=secret,id=k,ro x", "line 2: RUN: option ro of"},
		{"FROM host\nRUN --mount=type=secret,env=K x", "line 2: RUN: --mount=type=secret has no id"},
		{"FROM host\nRUN --mount=type=secret,id=k,env=A-B x", `line 2: RUN: "A-B" is not`},
		{"FROM host\nRUN --mount=type=secret,id=k,mode=9 x", "line 2: RUN: mode=9"},
		{"FROM host\nRUN --mount=type=secret,id=k,id=l x", "line 2: RUN: --mount has id twice"},
		{"FROM host\nRUN --mount=type=bind,target=/x x", "line 2: RUN: --mount=type=bind"},
		{"FROM host\nRUN --mount=type=ssh x", "line 2: RUN: --mount=type=ssh"},
		{"FROM host\nRUN --network=host x", "line 2: RUN: option --network"},
		{"FROM --platform=linux/nothing host", "line 1: FROM: platform"},
		{"FROM host\nCOPY --parents a b", "line 2: COPY: option --parents"},
		{"FROM host\nRUN <<EOF\nx\n", "line 2: RUN: the here-document <<EOF has no line EOF"},
		{"FROM host\nCOPY a", "line 2: COPY: it needs"},
		{"FROM host\nENV A", "line 2: ENV: A has no value"},
		{"FROM host\nENV A-B=1", "line 2: ENV"},
		{"FROM host\nENV A=\"1", "line 2: ENV: a quote"},
		{"FROM host\nRUN x \\", "line 2: the last line"},
		{"# escape=`\nFROM host", "line 1: another escape"},
		{"FROM host AS a\nFROM host AS A", "line 2: FROM: the stage name"},
		{"FROM host\nNONSENSE x", "line 2: NONSENSE"},
		{"FROM $X", "line 1: FROM: $X is empty"},
	} {
		_, err := Parse(tt.text, Options{Files: "f"})
		if kind := api.KindOf(err); err == nil || !strings.Contains(err.Error(), tt.want) || kind != api.KindInvalid && kind != api.KindUnsupported {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
	if _, err := Parse("FROM host", Options{Args: map[string]string{"X": "1"}}); err == nil || !strings.Contains(err.Error(), "no ARG X") {
		t.Errorf("an argument that nothing reads: %v", err)
	}
	if _, err := Parse("FROM host", Options{Secrets: map[string]string{"x": "y"}}); err == nil || !strings.Contains(err.Error(), `uses the secret "x"`) {
		t.Errorf("a secret that nothing uses: %v", err)
	}
	for _, text := range []string{"RUN cat <<<text", `RUN echo "a <<b c"`, "RUN echo $((1 << 3))", `RUN ["a", "<<EOF"]`} {
		if _, err := Parse("FROM host\n"+text, Options{}); err != nil {
			t.Errorf("no here-document: %s: %v", text, err)
		}
	}
}

// FuzzParse: any text is read or refused, and a step has what the engine relies on.
func FuzzParse(f *testing.F) {
	f.Add("FROM a AS b\nARG X=1\nENV A=$X\nCOPY --from=b [\"x\",\"y\"]\nRUN x\\\ny\nCMD z")
	f.Add("FROM host\nCOPY <<A <<'B' c\nA\nB\nRUN --mount=type=secret,id=x <<-C\n\tC\nADD a b")
	f.Add("FROM host\nENV A \"b\nRUN ${")
	f.Fuzz(func(t *testing.T, text string) {
		out, err := Parse(text, Options{Files: "f"})
		if err != nil {
			if kind := api.KindOf(err); kind != api.KindInvalid && kind != api.KindUnsupported {
				t.Fatalf("%v", err)
			}
			return
		}
		for _, s := range out.Stages {
			for _, p := range s.Steps {
				bad := len(p.Args) == 0 || p.Line == 0
				switch p.Op {
				case build.OpEntrypoint, build.OpCommand:
					bad = p.Line == 0 || len(p.Args) == 0 && !p.Exec
				case build.OpEnv, build.OpArg:
					bad = bad || len(p.Args)%2 != 0
				case build.OpCopy:
					bad = bad || len(p.Args)+len(p.Here) < 2
				}
				if bad {
					t.Fatalf("%+v", p)
				}
			}
		}
	})
}

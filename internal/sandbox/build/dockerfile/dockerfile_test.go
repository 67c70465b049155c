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
ENTRYPOINT ["x"]
CMD ["-v"]`
	f, err := Parse(text, Options{Args: map[string]string{"TAG": "slim", "VERSION": "$9"}, Files: "f"})
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
			}{{p.Exec, "exec"}, {p.Expand, "expand"}, {p.User != "", p.User}, {p.From != "", "from " + p.From}, {p.Mode != nil, "mode"}} {
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
23 ENTRYPOINT ["x" "-v"]
`
	if got.String() != want {
		t.Errorf("steps:\n%swant:\n%s", got.String(), want)
	}
	if len(f.Notes) != 1 || !strings.Contains(f.Notes[0], "line 21: EXPOSE") {
		t.Errorf("notes: %q", f.Notes)
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
		{"FROM host\n\nADD a b", "line 3: ADD"},
		{"FROM host\nHEALTHCHECK CMD x", "line 2: HEALTHCHECK"},
		{"FROM host\nVOLUME /x", "line 2: VOLUME"},
		{"FROM host\nONBUILD RUN x", "line 2: ONBUILD"},
		{"FROM host\nSTOPSIGNAL 9", "line 2: STOPSIGNAL"},
		{"FROM host\nRUN --mount=type=secret,id=k cat /run/secrets/k", "line 2: RUN: option --mount"},
		{"FROM host\nRUN --network=host x", "line 2: RUN: option --network"},
		{"FROM --platform=linux/arm64 host", "line 1: FROM: option --platform"},
		{"FROM host\nCOPY --link a b", "line 2: COPY: option --link"},
		{"FROM host\nRUN <<EOF\nx\nEOF", "line 2: RUN: here-documents"},
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
	if _, err := Parse("FROM host\nRUN cat <<<text", Options{}); err != nil {
		t.Errorf("a here-string of the shell: %v", err)
	}
}

// FuzzParse: any text is read or refused, and a step has what the engine relies on.
func FuzzParse(f *testing.F) {
	f.Add("FROM a AS b\nARG X=1\nENV A=$X\nCOPY --from=b [\"x\",\"y\"]\nRUN x\\\ny\nCMD z")
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
				case build.OpEnv, build.OpArg:
					bad = bad || len(p.Args)%2 != 0
				case build.OpCopy:
					bad = bad || len(p.Args) < 2
				}
				if bad {
					t.Fatalf("%+v", p)
				}
			}
		}
	})
}

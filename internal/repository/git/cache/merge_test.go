package cache

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/gittest"
)

// commitOn commits changes that must all be taken.
func commitOn(t testing.TB, r *Repo, parent string, changes ...Change) string {
	t.Helper()
	if len(changes) == 0 {
		return parent
	}
	res, err := r.Commit(gittest.Context(t), request(parent, changes...))
	if err != nil || len(res.Refused)+len(res.Ignored) > 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	return res.Hash
}

func mergeRequest(base, ours, theirs string) MergeRequest {
	id := Identity{"An Agent", "agent@example.org"}
	return MergeRequest{Base: base, Ours: ours, Theirs: theirs, Author: id, Committer: id, Message: "Merge it", Trailers: []string{"Hortus-Item: 1"}, When: time.Unix(1700000002, 0)}
}

func merged(t testing.TB, r *Repo, base, ours, theirs string) MergeResult {
	t.Helper()
	res, err := r.Merge(gittest.Context(t), mergeRequest(base, ours, theirs))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Fields(res.Commit+" "+res.Draft)) + map[bool]int{true: 1}[res.Empty]; n != 1 || (len(res.Conflicts) > 0) != (res.Draft != "") {
		t.Fatalf("not one of commit, empty and conflicts: %+v", res)
	}
	if made := res.Commit + res.Draft; made != "" {
		if parents := gittest.Git(t, r.dir, "log", "-1", "--format=%P", made); parents != ours {
			t.Fatalf("the parents of the merge are %q, want %s", parents, ours)
		}
	}
	return res
}

// tree shows a commit: modes, paths and contents.
func tree(t testing.TB, r *Repo, commit string) map[string]string {
	t.Helper()
	files, err := r.Files(gittest.Context(t), commit)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range files {
		if e.Mode == Submodule {
			out[e.Path] = "submodule " + e.Hash[:4]
			continue
		}
		b, err := r.Content(gittest.Context(t), e, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		out[e.Path] = map[Mode]string{Regular: "", Executable: "executable ", Symlink: "link "}[e.Mode] + string(b)
	}
	return out
}

func executable(path, text string) Change {
	c := file(path, text)
	c.Mode = Executable
	return c
}

func remove(path string) Change { return Change{Path: path, Delete: true} }

// numbered returns lines 1 to 9, of which some are replaced.
func numbered(replace ...string) string {
	var b strings.Builder
	for i := range 9 {
		line := fmt.Sprintf("line %d\n", i+1)
		for n := 0; n+1 < len(replace); n += 2 {
			if replace[n] == fmt.Sprint(i+1) {
				line = replace[n+1]
			}
		}
		b.WriteString(line)
	}
	return b.String()
}

func TestMerge(t *testing.T) {
	long := strings.Repeat("a line of a long file\n", 20)
	type files = map[string]string
	r := fetch(t, newCache(t), gittest.NewCheckout(t, files{"zero": "0\n"}))
	for name, c := range map[string]struct {
		base, ours, theirs []Change
		want               files  // of the commit, or of the draft; nil: it is empty
		conflicts          string // path and kind of each
		identical          string // path of each
	}{
		"different files": {
			[]Change{file("a", "1\n"), file("b", "1\n")}, []Change{file("a", "2\n")}, []Change{file("b", "2\n"), file("c", "new\n")},
			files{"a": "2\n", "b": "2\n", "c": "new\n"}, "", ""},
		"theirs on the base": {
			[]Change{file("a", "1\n")}, nil, []Change{file("a", "2\n")}, files{"a": "2\n"}, "", ""},
		"nothing new": {
			[]Change{file("a", "1\n")}, []Change{file("a", "2\n")}, []Change{file("a", "2\n")}, nil, "", "a"},
		"lines apart": {
			[]Change{file("a", numbered())}, []Change{file("a", numbered("2", "ours\n"))}, []Change{file("a", numbered("4", "", "8", "theirs\n"))},
			files{"a": numbered("2", "ours\n", "4", "", "8", "theirs\n")}, "", ""},
		"same line": {
			[]Change{file("a", numbered())}, []Change{file("a", numbered("2", "ours\n", "8", "both\n"))}, []Change{file("a", numbered("2", "theirs\n", "5", "theirs\n"))},
			files{"a": numbered("2", "<<<<<<< ours (merge of Hortus)\nours\n||||||| base\nline 2\n=======\ntheirs\n>>>>>>> theirs (merge of Hortus)\n", "5", "theirs\n", "8", "both\n")}, "a content", ""},
		"adjacent lines": {
			[]Change{file("a", numbered())}, []Change{file("a", numbered("2", "ours\n"))}, []Change{file("a", numbered("3", "theirs\n"))},
			files{"a": numbered("2", "<<<<<<< ours (merge of Hortus)\nours\nline 3\n||||||| base\nline 2\nline 3\n=======\nline 2\ntheirs\n>>>>>>> theirs (merge of Hortus)\n", "3", "")}, "a content", ""},
		"insertions at one place": {
			[]Change{file("a", "1\n2\n")}, []Change{file("a", "1\nours\n2\n")}, []Change{file("a", "1\ntheirs\n2\n")},
			files{"a": "1\n<<<<<<< ours (merge of Hortus)\nours\n||||||| base\n=======\ntheirs\n>>>>>>> theirs (merge of Hortus)\n2\n"}, "a content", ""},
		"an identical hunk and others": {
			[]Change{file("a", numbered())}, []Change{file("a", numbered("2", "same\n", "5", "ours\n"))}, []Change{file("a", numbered("2", "same\n", "8", "theirs\n"))},
			files{"a": numbered("2", "same\n", "5", "ours\n", "8", "theirs\n")}, "", "a"},
		"one deletes what the other changes": {
			[]Change{file("a", numbered())}, []Change{file("a", numbered("5", ""))}, []Change{file("a", numbered("5", "theirs\n"))},
			files{"a": numbered("5", "<<<<<<< ours (merge of Hortus)\n||||||| base\nline 5\n=======\ntheirs\n>>>>>>> theirs (merge of Hortus)\n")}, "a content", ""},
		"same new file": {
			nil, []Change{file("new", "1\n")}, []Change{file("new", "1\n"), file("more", "2\n")}, files{"new": "1\n", "more": "2\n"}, "", "new"},
		"other new file": {
			nil, []Change{file("new", "1\nours\n")}, []Change{file("new", "1\ntheirs\n")},
			files{"new": "<<<<<<< ours (merge of Hortus)\n1\nours\n||||||| base\n=======\n1\ntheirs\n>>>>>>> theirs (merge of Hortus)\n"}, "new add/add", ""},
		"new file with another mode": {
			nil, []Change{file("new", "1\n")}, []Change{executable("new", "1\n")}, files{"new": "1\n"}, "new mode", ""},
		"modified and deleted": {
			[]Change{file("a", "1\n"), file("b", "1\n")}, []Change{remove("a"), file("b", "2\n")}, []Change{file("a", "2\n"), remove("b")},
			files{"a": "2\n", "b": "2\n"}, "a modify/delete, b modify/delete", ""},
		"deleted twice": {
			[]Change{file("a", "1\n"), file("b", "b\n")}, []Change{remove("a")}, []Change{remove("a"), file("b", "2\n")}, files{"b": "2\n"}, "", "a"},
		"renamed and modified": {
			[]Change{file("a", long)}, []Change{remove("a"), file("b", long)}, []Change{file("a", long+"more\n")},
			files{"a": long + "more\n", "b": long}, "a rename/modify b", ""},
		"modified and renamed": {
			[]Change{file("a", long)}, []Change{file("a", long+"more\n")}, []Change{remove("a"), file("b", long)},
			files{"a": long + "more\n", "b": long}, "a rename/modify b", ""},
		"renamed twice": {
			[]Change{file("a", long)}, []Change{remove("a"), file("b", long)}, []Change{remove("a"), file("c", long)},
			files{"b": long, "c": long}, "a rename/rename c", "a"},
		"renamed and deleted": {
			[]Change{file("a", long)}, []Change{remove("a"), file("b", long+"more\n")}, []Change{remove("a")}, files{"b": long + "more\n"}, "a rename/delete b", "a"},
		"renamed alike": {
			[]Change{file("a", long)}, []Change{remove("a"), file("b", long)}, []Change{remove("a"), file("b", long)}, nil, "", "a b"},
		"a file for a renamed directory": {
			[]Change{file("d/a", long), file("d/b", "b\n")}, []Change{remove("d/a"), remove("d/b"), file("e/a", long), file("e/b", "b\n")}, []Change{file("d/s/new", "x\n")},
			files{"d/s/new": "x\n", "e/a": long, "e/b": "b\n"}, "d/s/new directory removed", ""},
		"a removed directory for a file": {
			[]Change{file("d/a", "a\n")}, []Change{file("d/new", "x\n")}, []Change{remove("d/a")}, files{"d/new": "x\n"}, "d/new directory removed", ""},
		"directory and file": {
			nil, []Change{file("d", "file\n")}, []Change{file("d/a", "1\n"), file("x", "x\n")}, files{"d": "file\n", "x": "x\n"}, "d directory/file", ""},
		"file and directory": {
			nil, []Change{file("d/e/a", "1\n")}, []Change{file("d", "file\n"), file("x", "x\n")}, files{"d/e/a": "1\n", "x": "x\n"}, "d directory/file", ""},
		"a file becomes a directory": {
			[]Change{file("d", "1\n"), file("o", "1\n")}, []Change{file("o", "2\n")}, []Change{remove("d"), file("d/a", "1\n")}, files{"d/a": "1\n", "o": "2\n"}, "", ""},
		"a changed file becomes a directory": {
			[]Change{file("d", "1\n")}, []Change{file("d", "2\n")}, []Change{remove("d"), file("d/a", "1\n")}, files{"d": "2\n"}, "d directory/file", ""},
		"binary": {
			[]Change{file("a", "\x00\n1\n2\n3\n")}, []Change{file("a", "\x00\nours\n2\n3\n")}, []Change{file("a", "\x00\n1\n2\ntheirs\n"), file("b", "\x00")},
			files{"a": "\x00\nours\n2\n3\n", "b": "\x00"}, "a binary", ""},
		"binary of one side": {
			[]Change{file("a", "\x00\x01")}, []Change{file("b", "b\n")}, []Change{file("a", "\x00\x02")}, files{"a": "\x00\x02", "b": "b\n"}, "", ""},
		"mode and content": {
			[]Change{file("a", "1\n"), executable("b", numbered()), file("c", "c\n")}, []Change{executable("a", "1\n"), executable("b", numbered("1", "ours\n")), executable("c", "c\n")}, []Change{file("a", "2\n"), file("b", numbered("9", "theirs\n")), executable("c", "c\n")},
			files{"a": "executable 2\n", "b": numbered("1", "ours\n", "9", "theirs\n"), "c": "executable c\n"}, "", "c"},
		"links": {
			[]Change{link("l", "a"), link("m", "a")}, []Change{link("l", "b"), link("m", "b")}, []Change{link("l", "c"), link("m", "b"), link("n", "x")},
			files{"l": "link b", "m": "link b", "n": "link x"}, "l link", "m"},
		"a link for a file": {
			[]Change{file("l", "1\n")}, []Change{link("l", "a")}, []Change{file("l", "2\n")}, files{"l": "link a"}, "l type", ""},
		"line ends": {
			[]Change{file("a", strings.ReplaceAll(numbered(), "\n", "\r\n"))}, []Change{file("a", strings.ReplaceAll(numbered("2", "ours\n"), "\n", "\r\n"))}, []Change{file("a", strings.ReplaceAll(numbered("8", "theirs\n"), "\n", "\r\n"))},
			files{"a": strings.ReplaceAll(numbered("2", "ours\n", "8", "theirs\n"), "\n", "\r\n")}, "", ""},
		"all line ends change": {
			[]Change{file("a", "1\n2\n")}, []Change{file("a", "1\r\n2\r\n")}, []Change{file("a", "1\n3\n")},
			files{"a": "<<<<<<< ours (merge of Hortus)\n1\r\n2\r\n||||||| base\n1\n2\n=======\n1\n3\n>>>>>>> theirs (merge of Hortus)\n"}, "a content", ""},
		"no line feed at the end": {
			[]Change{file("a", numbered()+"end")}, []Change{file("a", numbered("1", "ours\n")+"end")}, []Change{file("a", numbered()+"end\n")},
			files{"a": numbered("1", "ours\n") + "end\n"}, "", ""},
		"both append to the last line": {
			[]Change{file("a", "1\nend")}, []Change{file("a", "1\nend\nours")}, []Change{file("a", "1\nend\ntheirs")},
			files{"a": "1\n<<<<<<< ours (merge of Hortus)\nend\nours\n||||||| base\nend\n=======\nend\ntheirs\n>>>>>>> theirs (merge of Hortus)\n"}, "a content", ""},
		"emptied and changed": {
			[]Change{file("a", "1\n")}, []Change{file("a", "")}, []Change{file("a", "1\n2\n")},
			files{"a": "<<<<<<< ours (merge of Hortus)\n||||||| base\n1\n=======\n1\n2\n>>>>>>> theirs (merge of Hortus)\n"}, "a content", ""},
		"both fill an empty file": {
			[]Change{file("a", "")}, []Change{file("a", "1\n")}, []Change{file("a", "2\n")},
			files{"a": "<<<<<<< ours (merge of Hortus)\n1\n||||||| base\n=======\n2\n>>>>>>> theirs (merge of Hortus)\n"}, "a content", ""},
		"lock file": {
			[]Change{file("go.sum", "b v1 h1:b\nd v1 h1:d\n")}, []Change{file("go.sum", "a v1 h1:a\nb v1 h1:b\nd v1 h1:d\n")}, []Change{file("go.sum", "b v1 h1:b\nd v1 h1:d\ne v1 h1:e\n")},
			files{"go.sum": "a v1 h1:a\nb v1 h1:b\nd v1 h1:d\ne v1 h1:e\n"}, "", ""},
		"lock file, at one place": {
			[]Change{file("go.sum", "a v1 h1:a\n")}, []Change{file("go.sum", "a v1 h1:a\nb v1 h1:b\n")}, []Change{file("go.sum", "a v1 h1:a\nc v1 h1:c\n")},
			files{"go.sum": "a v1 h1:a\n<<<<<<< ours (merge of Hortus)\nb v1 h1:b\n||||||| base\n=======\nc v1 h1:c\n>>>>>>> theirs (merge of Hortus)\n"}, "go.sum content", ""},
		"odd paths": {
			[]Change{file("-x", numbered()), file(":(glob)*", numbered())}, []Change{file("-x", numbered("1", "ours\n")), file(":(glob)*", numbered("1", "ours\n"))}, []Change{file("-x", numbered("9", "theirs\n")), file(":(glob)*", numbered("1", "theirs\n"))},
			files{"-x": numbered("1", "ours\n", "9", "theirs\n"), ":(glob)*": numbered("1", "<<<<<<< ours (merge of Hortus)\nours\n||||||| base\nline 1\n=======\ntheirs\n>>>>>>> theirs (merge of Hortus)\n")}, ":(glob)* content", ""},
		"too large to merge": {
			[]Change{file("a", strings.Repeat("x", maxMergeBytes)+"\n")}, []Change{file("a", "ours\n")}, []Change{file("a", "theirs\n")}, files{"a": "ours\n"}, "a size", ""},
		"patch text in a file": {
			[]Change{file("a", numbered("5", "@@ -1,1 +1,1 @@\n--- a\n+++ b\n\\ No newline at end of file\n"))}, []Change{file("a", numbered("1", "-- x\n", "5", "@@ -1,1 +1,1 @@\n--- a\n+++ b\n\\ No newline at end of file\n"))}, []Change{file("a", numbered("5", "++ y\n"))},
			files{"a": numbered("1", "-- x\n", "5", "++ y\n")}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			base := commitOn(t, r, head(t, r).Hash, c.base...)
			ours, theirs := commitOn(t, r, base, c.ours...), commitOn(t, r, base, c.theirs...)
			res := merged(t, r, base, ours, theirs)
			var conflicts, identical []string
			for _, c := range res.Conflicts {
				conflicts = append(conflicts, strings.TrimSpace(fmt.Sprint(c.Path, " ", c.Kind, " ", c.Renamed)))
				if c.Kind != ConflictRemoved && c.Kind != ConflictSize && (c.Ours == "" || c.Theirs == "" || c.Truncated) {
					t.Errorf("the conflict has no patches: %+v", c)
				}
			}
			for _, h := range res.Identical {
				identical = append(identical, h.Path)
			}
			if got := strings.Join(conflicts, ", "); got != c.conflicts {
				t.Errorf("conflicts %q, want %q", got, c.conflicts)
			}
			if got := strings.Join(identical, " "); got != c.identical || len(res.Lost) > 0 {
				t.Errorf("identical %q, want %q; lost %+v", got, c.identical, res.Lost)
			}
			if res.Empty != (c.want == nil) {
				t.Fatalf("got %+v", res)
			}
			if res.Empty {
				return
			}
			want := maps.Clone(c.want)
			want["zero"] = "0\n"
			if got := tree(t, r, res.Commit+res.Draft); !maps.Equal(got, want) {
				t.Errorf("got\n%q\nwant\n%q", got, want)
			}
			if left, _ := filepath.Glob(r.base + ".w*"); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
	gittest.Git(t, r.dir, "fsck", "--strict")
}

// TestMergeSubmodules: a submodule is a commit that one side may change.
func TestMergeSubmodules(t *testing.T) {
	src := gittest.NewCheckout(t, map[string]string{"a": "1\n"})
	at := func(parent, digit string) string {
		gittest.Git(t, src, "checkout", "-q", "--detach", parent)
		gittest.Git(t, src, "update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat(digit, 40)+",sub")
		gittest.Git(t, src, "commit", "-qm", "sub "+digit)
		gittest.Git(t, src, "branch", "b"+digit)
		return gittest.Git(t, src, "rev-parse", "HEAD")
	}
	base := at("main", "1")
	ours, theirs := at(base, "2"), at(base, "3")
	gittest.Git(t, src, "checkout", "-q", "main")
	r := fetch(t, newCache(t), src)
	res := merged(t, r, base, ours, theirs)
	if len(res.Conflicts) != 1 || res.Conflicts[0].Kind != ConflictSubmodule || !strings.Contains(res.Conflicts[0].Theirs, "+Subproject commit 3333") {
		t.Errorf("got %+v", res)
	}
	other := commitOn(t, r, base, file("b", "2\n"))
	if got := tree(t, r, merged(t, r, base, other, theirs).Commit); got["sub"] != "submodule 3333" || got["b"] != "2\n" {
		t.Errorf("got %v", got)
	}
}

// TestMergeDraft: the author of a conflict completes the merge on the draft.
func TestMergeDraft(t *testing.T) {
	r := fetch(t, newCache(t), gittest.NewCheckout(t, map[string]string{"a": numbered()}))
	base := head(t, r).Hash
	ours := commitOn(t, r, base, file("a", numbered("2", "ours\n")))
	theirs := commitOn(t, r, base, file("a", numbered("2", "theirs\n")), file("new", "x\n"))
	res := merged(t, r, base, ours, theirs)
	if subject := gittest.Git(t, r.dir, "log", "-1", "--format=%s", res.Draft); subject != "Merge with conflicts: Merge it" {
		t.Errorf("the subject is %q", subject)
	}
	done := commitOn(t, r, res.Draft, file("a", numbered("2", "ours\ntheirs\n")))
	later := commitOn(t, r, ours, file("a", numbered("2", "ours\n", "8", "later\n")))
	res = merged(t, r, ours, later, done)
	// Control: markers in it are not merged.
	half := commitOn(t, r, res.Commit, file("a", numbered("2", "<<<<<<< ours (merge of Hortus)\r\n")), file("b", "text before >>>>>>> theirs (merge of Hortus)\n"))
	if res := merged(t, r, res.Commit, commitOn(t, r, res.Commit, file("c", "c\n")), half); len(res.Conflicts) != 1 || res.Conflicts[0].Kind != ConflictMarkers || res.Conflicts[0].Path != "a" {
		t.Errorf("got %+v", res)
	}
	if res := merged(t, r, half, commitOn(t, r, half, file("c", "c\n")), commitOn(t, r, half, file("a", "1\n"))); res.Commit == "" {
		t.Errorf("markers that are removed are a conflict: %+v", res)
	}
	if got := tree(t, r, res.Commit); got["a"] != numbered("2", "ours\ntheirs\n", "8", "later\n") || got["new"] != "x\n" {
		t.Errorf("got %q", got)
	}
	if raw := gittest.Git(t, r.dir, "cat-file", "commit", res.Commit); !strings.HasSuffix(raw, "author An Agent <agent@example.org> 1700000002 +0000\ncommitter An Agent <agent@example.org> 1700000002 +0000\n\nMerge it\n\nHortus-Item: 1") {
		t.Errorf("the commit is\n%s", raw)
	}
}

func TestMergeRefuses(t *testing.T) {
	r := fetch(t, newCache(t), gittest.NewCheckout(t, map[string]string{"a": "1\n"}))
	base := head(t, r).Hash
	ours, theirs := commitOn(t, r, base, file("a", "2\n")), commitOn(t, r, base, file("b", "2\n"))
	for name, c := range map[string]struct {
		spoil func(*MergeRequest)
		kind  api.Kind
	}{
		"base is beside ours":   {func(q *MergeRequest) { q.Base = theirs }, api.KindInvalid},
		"base is beside theirs": {func(q *MergeRequest) { q.Base = ours }, api.KindInvalid},
		"unknown":               {func(q *MergeRequest) { q.Theirs = strings.Repeat("1", 40) }, api.KindNotFound},
		"a tree":                {func(q *MergeRequest) { q.Theirs = gittest.Git(t, r.dir, "rev-parse", theirs+"^{tree}") }, api.KindNotFound},
		"option":                {func(q *MergeRequest) { q.Base = "--all" }, api.KindInvalid},
		"no message":            {func(q *MergeRequest) { q.Message = "" }, api.KindInvalid},
		"no author":             {func(q *MergeRequest) { q.Author = Identity{} }, api.KindInvalid},
	} {
		q := mergeRequest(base, ours, theirs)
		c.spoil(&q)
		if res, err := r.Merge(gittest.Context(t), q); api.KindOf(err) != c.kind {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
	var many, ourMany []Change
	for i := range maxMergeFiles + 1 {
		many, ourMany = append(many, file(fmt.Sprint("f", i), "")), append(ourMany, link(fmt.Sprint("f", i), "x"))
	}
	_, err := r.Merge(gittest.Context(t), mergeRequest(base, commitOn(t, r, base, many...), commitOn(t, r, base, ourMany...)))
	gittest.WantKind(t, err, api.KindExhausted, "more than 1000 files")
}

// TestMergeDriver: an attribute of a hostile repository does not resolve a conflict.
func TestMergeDriver(t *testing.T) {
	for _, driver := range []string{"merge=union", "merge=ours", "merge=evil", "-merge", "merge=binary", "diff=evil", "-diff", "-text", "eol=crlf filter=evil"} {
		t.Run(driver, func(t *testing.T) {
			src, marker := trap(t)
			gittest.WriteFiles(t, src, map[string]string{"a.txt": numbered(), ".gitattributes": "*.txt " + driver + "\n", ".git/info/attributes": "*.txt " + driver + "\n"})
			// Git of the control commits nothing by the trap.
			harmless := []string{"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "commit.gpgSign=false", "-c", "filter.evil.required=false", "-c", "filter.evil.process=", "-c", "filter.evil.clean=cat", "-c", "filter.evil.smudge=cat", "-c", "merge.ours.driver=true"}
			control := func(args ...string) (string, error) { return gittest.TryGit(t, src, append(harmless, args...)...) }
			must := func(args ...string) {
				t.Helper()
				if out, err := control(args...); err != nil {
					t.Fatalf("git %v: %s", args, out)
				}
			}
			must("add", "-A")
			must("commit", "-qm", "attributes")
			os.Remove(marker)
			r := fetch(t, newCache(t), src)
			base := head(t, r).Hash
			ours := commitOn(t, r, base, file("a.txt", numbered("2", "ours\n")))
			theirs := commitOn(t, r, base, file("a.txt", numbered("2", "theirs\n")))
			apart := commitOn(t, r, base, file("a.txt", numbered("8", "theirs\n")))
			res := merged(t, r, base, ours, theirs)
			if len(res.Conflicts) != 1 || res.Conflicts[0].Kind != ConflictContent || !strings.Contains(tree(t, r, res.Draft)["a.txt"], "<<<<<<< ours (merge of Hortus)\nours\n") {
				t.Errorf("got %+v", res)
			}
			if got := tree(t, r, merged(t, r, base, ours, apart).Commit)["a.txt"]; got != numbered("2", "ours\n", "8", "theirs\n") {
				t.Errorf("got %q", got)
			}
			if b, err := os.ReadFile(marker); err == nil {
				t.Errorf("it ran %s", b)
			}
			// Control: git in the checkout takes the attributes that are about merging.
			if !strings.Contains(driver, "merge") {
				return
			}
			must("fetch", "-q", "--upload-pack", "git-upload-pack", r.dir, "+refs/hortus/*:refs/x/*")
			must("update-ref", "refs/heads/main", base)
			for name, commit := range map[string]string{"o": ours, "t": theirs} {
				if err := r.SetBranch(gittest.Context(t), name, commit); err != nil {
					t.Fatal(err)
				}
			}
			must("-c", "protocol.file.allow=always", "fetch", "-q", "--upload-pack", "git-upload-pack", r.dir, "+refs/hortus/branches/*:refs/heads/*")
			must("checkout", "-q", "-f", "o")
			out, err := control("merge", "--no-commit", "t")
			text, _ := os.ReadFile(filepath.Join(src, "a.txt"))
			_, ran := os.Stat(marker)
			if plain := strings.Contains(string(text), "<<<<<<< "); plain || ran != nil && driver == "merge=evil" {
				t.Errorf("control: git merged as without attributes: %s, %v\n%s", out, err, text)
			}
		})
	}
}

// TestMergeReplaced: a replacement of an object does not change what is merged.
func TestMergeReplaced(t *testing.T) {
	r := fetch(t, newCache(t), gittest.NewCheckout(t, map[string]string{"a": "1\n"}))
	base := head(t, r).Hash
	ours, theirs, evil := commitOn(t, r, base, file("b", "2\n")), commitOn(t, r, base, file("a", "2\n")), commitOn(t, r, base, file("a", "evil\n"))
	gittest.Git(t, r.dir, "replace", theirs, evil)
	if control := gittest.Git(t, r.dir, "show", theirs+":a"); control != "evil" {
		t.Fatalf("control: the object is not replaced: %s", control)
	}
	if got := tree(t, r, merged(t, r, base, ours, theirs).Commit); got["a"] != "2\n" {
		t.Errorf("got %q", got)
	}
}

// TestMergeByWrongGit: what a git that loses changes says is not believed.
func TestMergeByWrongGit(t *testing.T) {
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	src := gittest.NewCheckout(t, map[string]string{"a": numbered(), "b": "1\n"})
	good := newCache(t)
	r := fetch(t, good, src)
	base := head(t, r).Hash
	ours := commitOn(t, r, base, file("a", numbered("2", "ours\n")))
	theirs := commitOn(t, r, base, file("a", numbered("5", "", "8", "theirs\n")), file("b", "2\n"))
	for name, c := range map[string]struct{ call, instead, lost string }{
		"takes ours":          {"merge-file", "cat ours", "theirs -line 5\n, theirs -line 8\n+theirs\n"},
		"takes theirs":        {"merge-file", "cat theirs", "ours -line 2\n+ours\n"},
		"takes the base":      {"merge-file", "cat base", "ours -line 2\n+ours\n, theirs -line 5\n, theirs -line 8\n+theirs\n"},
		"loses a deletion":    {"merge-file", `sed "s/^line 4$/line 4\nline 5/" ours | sed "s/^line 8$/theirs/"`, "theirs -line 5\n"},
		"takes a line twice":  {"merge-file", `"$git" "$@" | sed "s/^line 9$/line 9\nline 9/"`, "both the merged file differs from the changes of both sides"},
		"moves a hunk":        {"merge-file", `(echo ours; grep -v "line [258]" base; echo theirs)`, "ours -line 2\n+ours\n, theirs -line 8\n+theirs\n"},
		"drops a common line": {"merge-file", `"$git" "$@" | grep -v "line 4"`, "theirs -line 5\n"},
		"stores nothing":      {"index-pack", "cat >/dev/null", ""},
	} {
		t.Run(name, func(t *testing.T) {
			script := filepath.Join(t.TempDir(), "git")
			// The name of the call is not the first argument.
			text := "#!/bin/bash\ngit=" + real + "\nfor arg; do [ \"$arg\" = " + c.call + " ] && { " + c.instead + "; exit $?; }; done\nexec \"$git\" \"$@\"\n"
			if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
			cfg := good.cfg
			cfg.Program = script
			bad, err := Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			wrong := *r
			wrong.git, wrong.cache = bad.git, bad
			if c.call == "index-pack" {
				_, err := wrong.Merge(gittest.Context(t), mergeRequest(base, ours, theirs))
				gittest.WantKind(t, err, api.KindInternal, "git did not store the commit")
				return
			}
			res := merged(t, &wrong, base, ours, theirs)
			var lost []string
			for _, h := range res.Lost {
				lost = append(lost, fmt.Sprint(h.Side, " ", h.Text))
			}
			if got := strings.Join(lost, ", "); got != c.lost || res.Commit != "" || len(res.Conflicts) != 1 || res.Conflicts[0].Kind != ConflictHunk {
				t.Errorf("lost %q, want %q; %+v", got, c.lost, res)
			}
		})
	}
	if res := merged(t, r, base, ours, theirs); res.Commit == "" {
		t.Errorf("control: %+v", res)
	}
}

func TestMoveBranch(t *testing.T) {
	r := fetch(t, newCache(t), gittest.NewCheckout(t, map[string]string{"a": "1\n"}))
	base := head(t, r).Hash
	one, two := commitOn(t, r, base, file("a", "2\n")), commitOn(t, r, base, file("a", "3\n"))
	for _, c := range []struct {
		from, to, at string
		kind         api.Kind
	}{
		{base, one, "", api.KindConflict},
		{"", base, base, ""},
		{"", one, base, api.KindConflict},
		{base, one, one, ""},
		{base, two, one, api.KindConflict},
		{one, one, one, ""},
		{one, "", one, api.KindInvalid},
		{"main", two, one, api.KindInvalid},
		{one, strings.Repeat("1", 40), one, api.KindNotFound},
		{one, two, two, ""},
	} {
		err := r.MoveBranch(gittest.Context(t), "plan/1", c.from, c.to)
		if err == nil && c.kind != "" || err != nil && api.KindOf(err) != c.kind {
			t.Errorf("%+v: %v", c, err)
		}
		if at, _ := r.peel(gittest.Context(t), ownBranches+"plan/1"); at != c.at {
			t.Errorf("%+v: the branch is at %s", c, at)
		}
	}
	gittest.WantKind(t, r.MoveBranch(gittest.Context(t), "..", base, one), api.KindInvalid, "")
	// Of several that move it at the same time, one does.
	errs := make(chan error, 8)
	for i := range cap(errs) {
		to := []string{base, one}[i%2]
		go func() { errs <- r.MoveBranch(gittest.Context(t), "plan/1", two, to) }()
	}
	var moved int
	for range cap(errs) {
		if err := <-errs; err == nil {
			moved++
		} else if api.KindOf(err) != api.KindConflict {
			t.Error(err)
		}
	}
	if moved != 1 {
		t.Errorf("%d moved it", moved)
	}
}

// TestVerify: each wrong file of a tree is found.
func TestVerify(t *testing.T) {
	e := func(hash string) Entry { return Entry{Path: "f", Mode: Regular, Hash: hash} }
	exec := e("b")
	exec.Mode = Executable
	none := Entry{}
	for _, c := range []struct{ base, ours, theirs, right Entry }{
		{e("b"), e("b"), e("b"), e("b")},
		{e("b"), e("o"), e("b"), e("o")},
		{e("b"), e("b"), e("t"), e("t")},
		{e("b"), e("s"), e("s"), e("s")},
		{e("b"), none, e("b"), none},
		{e("b"), e("b"), none, none},
		{none, e("o"), none, e("o")},
		{none, none, e("t"), e("t")},
		{none, none, none, none},
		{e("b"), exec, e("t"), Entry{Path: "f", Mode: Executable, Hash: "t"}},
	} {
		files := func(e Entry) map[string]Entry {
			if e.Mode == "" {
				return nil
			}
			return map[string]Entry{"f": e}
		}
		m := &merge{draft: &draft{parent: files(c.ours)}, base: files(c.base), theirs: files(c.theirs)}
		for _, is := range slices.Concat([]Entry{c.right}, []Entry{none, exec, e("b"), e("o"), e("t"), e("s"), e("x")}) {
			if err := m.verify(files(is)); (err == nil) != (is == c.right) {
				t.Errorf("%+v: %v: %v", c, is, err)
			}
		}
	}
}

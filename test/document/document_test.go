package document_test

import (
	"fmt"
	"reflect"
	"testing"

	"hortus.dev/test/document"
)

func TestCommands(t *testing.T) {
	text := `# Title

    hortus run "a sentence"     # a comment
    [task 4f2a] not a command
    KEY=a hortus ls; echo

text with ` + "`hortus task show ID`" + `

    hortus template create x --run '
    sleep 1 &
    done'
    15

        $ cat <<END
        one
        END
        one

        two
    $ id=$(hortus sandbox create --ttl "10 m")

    hortus is not a command below a prompt in the same block
text

    id=$(hortus sandbox create)
    a -> b
`
	want := []document.Command{
		{Line: 3, Text: `hortus run "a sentence"     # a comment`},
		{Line: 5, Text: `KEY=a hortus ls; echo`},
		{Line: 9, Text: "hortus template create x --run '\nsleep 1 &\ndone'"},
		{Line: 14, Text: "cat <<END\none\nEND", Prompt: true, Prints: []string{"one", "", "two"}},
		{Line: 20, Text: `id=$(hortus sandbox create --ttl "10 m")`, Prompt: true,
			Prints: []string{"", "hortus is not a command below a prompt in the same block"}},
		{Line: 25, Text: "id=$(hortus sandbox create)"},
	}
	got := document.Commands(text)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("command %d\nwant %q\ngot  %q", i, at(want, i), at(got, i))
		}
	}
	if got := document.Spans(text); len(got) != 1 || got[0].Line != 7 || got[0].Text != "hortus task show ID" {
		t.Errorf("spans: %+v", got)
	}
}

func at(all []document.Command, i int) string {
	if i < len(all) {
		return fmt.Sprintf("%+v", all[i])
	}
	return "none"
}

func TestCalls(t *testing.T) {
	for text, want := range map[string][][]string{
		`hortus ls | grep "a b" # c`:             {{"hortus", "ls"}, {"grep", "a b"}},
		`id=$(hortus sandbox create -e 'A=b c')`: {{"hortus", "sandbox", "create", "-e", "A=b c"}},
		`hortus kill "$id" x$(date)y`:            {{"hortus", "kill", "$id", "x$(date)y"}, {"date"}},
		`A=b`:                                    nil,
	} {
		got, err := document.Calls(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nwant %q\ngot  %q, %v", text, want, got, err)
		}
	}
	if _, err := document.Calls(`hortus run "`); err == nil {
		t.Error("an open quote is no error")
	}
}

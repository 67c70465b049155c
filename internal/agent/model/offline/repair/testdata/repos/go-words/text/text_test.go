package text

import (
	"reflect"
	"testing"
)

func TestWords(t *testing.T) {
	got := Words("It's 2 o'clock, Ada!")
	if want := []string{"it", "s", "2", "o", "clock", "ada"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTop(t *testing.T) {
	got := Top("b a b c a b d", 3)
	if want := []Count{{"b", 3}, {"a", 2}, {"c", 1}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Top("x", 3); len(got) != 1 {
		t.Errorf("got %v, want one word", got)
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		in    string
		width int
		want  []string
	}{
		{"the quick brown fox", 9, []string{"the quick", "brown fox"}},
		{"the quick brown fox", 8, []string{"the", "quick", "brown", "fox"}},
		{"", 5, nil},
	} {
		if got := Wrap(c.in, c.width); !reflect.DeepEqual(got, c.want) {
			t.Errorf("Wrap(%q, %d) gives %q, want %q", c.in, c.width, got, c.want)
		}
	}
}

func TestSlug(t *testing.T) {
	if got := Slug("Hello, World!"); got != "hello-world" {
		t.Errorf("got %q, want %q", got, "hello-world")
	}
}

func TestCamel(t *testing.T) {
	if got := Camel("read the file"); got != "readTheFile" {
		t.Errorf("got %q, want %q", got, "readTheFile")
	}
}

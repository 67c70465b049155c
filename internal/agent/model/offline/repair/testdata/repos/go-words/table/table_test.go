package table

import (
	"reflect"
	"testing"
)

func TestWidths(t *testing.T) {
	got := Widths([][]string{{"a", "bbb"}, {"cc", "d", "e"}})
	if want := []int{2, 3, 1}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestDraw(t *testing.T) {
	got := Draw([][]string{{"name", "n"}, {"ada", "12"}})
	if want := "name  n\nada   12\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBars(t *testing.T) {
	got := Bars("a a a a b b c", 2, 8)
	if want := []string{"######## a", "#### b"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPercent(t *testing.T) {
	for _, c := range [][3]int{{1, 3, 33}, {2, 3, 67}, {0, 0, 0}, {5, 5, 100}} {
		if got := Percent(c[0], c[1]); got != c[2] {
			t.Errorf("Percent(%d, %d) is %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

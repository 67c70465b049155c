package storetest

import (
	"fmt"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// findIDs are task ids with the letter t where it can mislead.
var findIDs = []api.TaskID{
	"t4f2a000000000000000", "t4f2b000000000000000", "tt4f0000000000000000",
	"tabc0000000000000000", "tz999999999999999999", "ttt00000000000000000",
}

func testFind(t *testing.T, s store.Store) {
	for _, id := range findIDs {
		newTask(t, s, func(k *api.Task) { k.ID = id })
	}
	for _, test := range []struct {
		prefix string
		want   api.TaskID
		kind   api.Kind
	}{
		{"4f2a", findIDs[0], ""},
		{"t4f2a", findIDs[0], ""},
		{"abc", findIDs[3], ""},
		{"z", findIDs[4], ""},
		{string(findIDs[1]), findIDs[1], ""},
		{string(findIDs[1][1:]), findIDs[1], ""},
		{"4f2", "", api.KindInvalid},
		{"t4f", "", api.KindInvalid}, // t4f2a, t4f2b and tt4f
		{"t", "", api.KindInvalid},
		{"", "", api.KindInvalid},
		{"5", "", api.KindNotFound},
		{"%", "", api.KindNotFound},
		{"_", "", api.KindNotFound},
		{"4f2_", "", api.KindNotFound},
		{"*", "", api.KindNotFound},
		{"t%", "", api.KindNotFound},
		{"[a-z]", "", api.KindNotFound},
		{"' OR '1'='1", "", api.KindNotFound},
		{"\xff", "", api.KindNotFound},
		{"4F2A", "", api.KindNotFound},
		{strings.Repeat("4", 1<<20), "", api.KindNotFound},
	} {
		got, err := s.FindTaskOf(t.Context(), "", test.prefix)
		if got != test.want || api.KindOf(err) != test.kind {
			t.Errorf("%.32q: got %q, %v; want %q, kind %q", test.prefix, got, err, test.want, test.kind)
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%.32q: an error of %d bytes", test.prefix, len(err.Error()))
		}
	}
	_, err := s.FindTaskOf(t.Context(), "", "4f2")
	if !strings.Contains(err.Error(), string(findIDs[0])) || !strings.Contains(err.Error(), string(findIDs[1])) {
		t.Errorf("the matches are not named: %v", err)
	}

	b := newSandbox(t, s, func(b *api.Sandbox) { b.ID = "i7777777777777777777" })
	for _, prefix := range []string{"i7777777", "777777", string(b.ID)} {
		if got, err := s.FindSandbox(t.Context(), prefix); got != b.ID || err != nil {
			t.Errorf("%q: got %q, %v", prefix, got, err)
		}
	}
	_, err = s.FindSandbox(t.Context(), "4f2a")
	wantKind(t, err, api.KindNotFound)
}

// testFindAgainstModel tries every prefix of one and two bytes.
func testFindAgainstModel(t *testing.T, s store.Store) {
	if testing.Short() {
		t.Skip("skipped by -short: 1,500 queries")
	}
	InsertFindTasks(t, s)
	for a := range 256 {
		CheckFind(t, s, string([]byte{byte(a)}))
		for _, b := range []byte("\x00%_*?4ft[\\'z{\xff") {
			CheckFind(t, s, string([]byte{byte(a), b}))
		}
	}
}

// InsertFindTasks stores the tasks that [CheckFind] knows.
func InsertFindTasks(t *testing.T, s store.Store) {
	t.Helper()
	for _, id := range findIDs {
		newTask(t, s, func(k *api.Task) { k.ID = id })
	}
}

// CheckFind compares FindTaskOf with what strings.HasPrefix says; implementations
// fuzz it, after [InsertFindTasks].
func CheckFind(t *testing.T, s store.Store, prefix string) {
	t.Helper()
	var matches []api.TaskID
	for _, id := range findIDs {
		if strings.HasPrefix(string(id), prefix) || strings.HasPrefix(string(id[1:]), prefix) {
			matches = append(matches, id)
		}
	}
	got, err := s.FindTaskOf(t.Context(), "", prefix)
	want := fmt.Sprint(api.TaskID(""), api.KindInvalid)
	switch {
	case prefix == "":
	case len(matches) == 0:
		want = fmt.Sprint(api.TaskID(""), api.KindNotFound)
	case len(matches) == 1:
		want = fmt.Sprint(matches[0], api.Kind(""))
	}
	if have := fmt.Sprint(got, api.KindOf(err)); have != want {
		t.Errorf("%q: got %s (%v), want %s", prefix, have, err, want)
	}
}

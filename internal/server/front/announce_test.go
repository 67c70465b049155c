package front_test

import (
	"context"
	"net"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/server/front"
)

// keys are those of a daemon that has some, or none.
type keys struct{ none bool }

func (k keys) None(context.Context) (bool, error) { return k.none, nil }

func (k keys) First(context.Context, api.CreateKey) (api.CreatedKey, bool, error) {
	return api.CreatedKey{Secret: "s"}, k.none, nil
}

// TestKeyless: that no first key is created is said only if there never was one.
func TestKeyless(t *testing.T) {
	for name, c := range map[string]struct {
		first, none bool
		said        int
	}{
		"no key":                   {false, true, 1},
		"a key":                    {false, false, 0},
		"the first one is created": {true, true, 0},
	} {
		said, announced := 0, 0
		l := front.Listeners{Listener: &net.TCPListener{}, URL: "http://127.0.0.1:1"}
		err := l.Announce(t.Context(), front.Config{FirstKey: c.first, Keyless: func() { said++ }, Announce: func(string, api.CreatedKey) { announced++ }}, keys{c.none})
		if err != nil || said != c.said || announced != 1 {
			t.Errorf("%s: said %d times, announced %d times, %v", name, said, announced, err)
		}
	}
}

package tier

import "testing"

func TestTiers(t *testing.T) {
	for _, c := range []struct {
		value         string
		soaks, anyone bool // whether the two sorts of tests run
	}{{"", false, true}, {"soak", true, true}, {"user", false, false}} {
		t.Run(c.value, func(t *testing.T) {
			t.Setenv(Variable, c.value)
			ran := map[string]bool{}
			t.Run("soak", func(t *testing.T) { Soak(t); ran["soak"] = true })
			t.Run("any user", func(t *testing.T) { AnyUser(t); ran["any user"] = true })
			if ran["soak"] != c.soaks || ran["any user"] != c.anyone || Soaking() != c.soaks || (Count(1, 9) == 9) != c.soaks {
				t.Errorf("ran %v", ran)
			}
		})
	}
}

func TestUnknownTier(t *testing.T) {
	t.Setenv(Variable, "soaked")
	defer func() {
		if recover() == nil {
			t.Error("an unknown tier was accepted")
		}
	}()
	Soaking()
}

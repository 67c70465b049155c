package envd

import (
	"fmt"
	"testing"

	"hortus.dev/api"
)

func TestGaps(t *testing.T) {
	var g gaps
	if at := g.take("x1"); at != -1 {
		t.Errorf("nobody left: %d", at)
	}
	g.left("x1", 7)
	g.left("x1", 9)
	if at := g.take("x1"); at != 9 {
		t.Errorf("the next client goes on from %d", at)
	}
	if at := g.take("x1"); at != -1 {
		t.Errorf("a second client goes on from %d", at)
	}
	for i := range maxGaps + 1 {
		g.left(api.ExecID(fmt.Sprint(i)), 1)
	}
	if len(g.at) > maxGaps {
		t.Errorf("%d are remembered", len(g.at))
	}
}

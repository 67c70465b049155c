package console

import (
	"testing"

	"hortus.dev/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }

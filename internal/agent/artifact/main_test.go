package artifact_test

import (
	"os"
	"testing"

	"hortus.dev/test/python"
)

func TestMain(m *testing.M) {
	python.Direct()
	os.Exit(m.Run())
}

package patience

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// Variable is the name of the environment variable with the factor.
const Variable = "HORTUS_TEST_PATIENCE"

// Of returns the timeout for what takes up to d on an ordinary machine. It panics if
// the variable is invalid: if the factor were ignored, tests would fail for reasons
// that are hard to find.
func Of(d time.Duration) time.Duration {
	f, err := factor(os.Getenv(Variable))
	if err != nil {
		panic(err)
	}
	return time.Duration(f) * d
}

func factor(s string) (int, error) {
	if s == "" {
		return 1, nil
	}
	f, err := strconv.Atoi(s)
	if err != nil || f < 1 || f > 100 {
		return 0, fmt.Errorf("%s is %q, not a whole number from 1 to 100", Variable, s)
	}
	return f, nil
}

// Package patience scales the timeouts of tests for slow machines.
//
// A timeout in a test is not a measurement: it only ends a test that would wait
// forever. On a machine that is many times slower than others, such as one that QEMU
// emulates, every timeout must be longer by the same factor. HORTUS_TEST_PATIENCE sets
// the factor, an integer from 1 to 100 (default 1). It must not change what a test
// measures, or timeouts of the product that a test sets.
//
// The package must not depend on what tests wait for.
package patience

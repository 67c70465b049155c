// Package patience says how long tests wait for what has to happen.
//
// A wait in a test is no measure: its bound only ends what never comes. On a
// machine that is many times slower than others, such as one that QEMU emulates,
// every bound is to be longer by the same factor, which HORTUS_TEST_PATIENCE
// gives: a whole number from 1 to 100. What a test measures, and the time-outs
// that it gives to the product as its subject, do not change with it.
//
// The package must not know what is waited for.
package patience

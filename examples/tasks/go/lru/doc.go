// Package lru keeps the values that were used last.
package lru

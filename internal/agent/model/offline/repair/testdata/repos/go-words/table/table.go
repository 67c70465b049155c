// Package table draws tables of text.
package table

import (
	"fmt"
	"strings"

	"example.org/words/text"
)

// Widths finds how wide each column has to be.
func Widths(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len(cell))
		}
	}
	return widths
}

// Draw aligns cells to the left and separates them by two blanks.
func Draw(rows [][]string) string {
	widths := Widths(rows)
	var b strings.Builder
	for _, row := range rows {
		var cells []string
		for i, cell := range row {
			cells = append(cells, fmt.Sprintf("%-*s", widths[i], cell))
		}
		b.WriteString(strings.TrimRight(strings.Join(cells, "  "), " ") + "\n")
	}
	return b.String()
}

// Bars draws how often the top words of a text stand in it.
func Bars(s string, n, width int) []string {
	top := text.Top(s, n)
	var out []string
	for _, c := range top {
		length := c.N * width / top[0].N
		out = append(out, strings.Repeat("#", length)+" "+c.Word)
	}
	return out
}

// Percent is a share in whole percent, rounded.
func Percent(part, whole int) int {
	if whole == 0 {
		return 0
	}
	return (part*100 + whole/2) / whole
}

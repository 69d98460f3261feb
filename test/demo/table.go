package main

import (
	"strings"
	"unicode/utf8"
)

// table is printed with columns as wide as their widest cell.
type table struct {
	align string // a letter a column: l or r
	rows  [][]cell
}

type cell struct{ style, text string }

func newTable(align string, head ...string) *table {
	t := &table{align: align}
	t.add(cells(dim, head...)...)
	return t
}

func cells(style string, texts ...string) (all []cell) {
	for _, text := range texts {
		all = append(all, cell{style, text})
	}
	return all
}

func (t *table) add(row ...cell) { t.rows = append(t.rows, row) }

func (t *table) print(s *screen) {
	widths := make([]int, len(t.align))
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, row := range t.rows {
		line := "  "
		for i, c := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text))
			if t.align[i] == 'r' {
				line += " " + pad + s.paint(c.style, c.text) + " "
			} else {
				line += " " + s.paint(c.style, c.text) + pad + " "
			}
		}
		s.print(strings.TrimRight(line, " "))
	}
}

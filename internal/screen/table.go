package screen

import (
	"bytes"
	"io"
	"strings"
)

// Table aligns lines of cells, which end at tabs. Unlike text/tabwriter it counts the columns of each character on a terminal.
type Table struct {
	out  io.Writer
	text bytes.Buffer
}

// NewTable returns a table, which Flush writes to out.
func NewTable(out io.Writer) *Table { return &Table{out: out} }

func (t *Table) Write(text []byte) (int, error) { return t.text.Write(text) }

// Flush writes the aligned lines.
func (t *Table) Flush() error {
	const space = 3
	text := t.text.String()
	var widths []int // the width of each column, except a line's last cell
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "\t")
		for i, cell := range cells[:len(cells)-1] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Width(cell)+space)
		}
	}
	t.text.Reset()
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "\t")
		for i, cell := range cells[:len(cells)-1] {
			t.text.WriteString(cell)
			t.text.WriteString(strings.Repeat(" ", widths[i]-Width(cell)))
		}
		t.text.WriteString(cells[len(cells)-1])
	}
	_, err := t.text.WriteTo(t.out)
	return err
}

package screen

import (
	"bytes"
	"io"
	"strings"
)

// Table aligns lines of cells, which end at tabs. Unlike text/tabwriter it counts the columns that a terminal takes for a character.
type Table struct {
	out  io.Writer
	text bytes.Buffer
}

// NewTable returns a table, which Flush writes to out.
func NewTable(out io.Writer) *Table { return &Table{out: out} }

func (t *Table) Write(text []byte) (int, error) { return t.text.Write(text) }

// Flush aligns the lines that were written to the table, and writes them to its output.
func (t *Table) Flush() error {
	const space = 3
	text := t.text.String()
	var widths []int // the widths of each cell but a line's last
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

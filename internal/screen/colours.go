package screen

import (
	"io"
	"os"

	"github.com/fatih/color"
	"golang.org/x/term"
)

// Colours are a terminal's colours. Without a terminal they do nothing.
type Colours struct {
	On                                         bool
	Title, Added, Removed, Changed, Dim, Alert *color.Color
}

// NewColours returns colours that are on or off.
func NewColours(coloured bool) *Colours {
	c := &Colours{coloured, color.New(color.Bold), color.New(color.FgGreen), color.New(color.FgRed), color.New(color.FgYellow),
		color.New(color.Faint), color.New(color.FgRed, color.Bold)}
	for _, each := range []*color.Color{c.Title, c.Added, c.Removed, c.Changed, c.Dim, c.Alert} {
		if each.DisableColor(); coloured {
			each.EnableColor()
		}
	}
	return c
}

// Of returns the colour of a sign: + is added, - removed, ~ changed. It returns nil for any other.
func (c *Colours) Of(sign byte) *color.Color {
	return map[byte]*color.Color{'+': c.Added, '-': c.Removed, '~': c.Changed}[sign]
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// IsColourful reports whether colours are wanted there: on a terminal that allows them, and anywhere with CLICOLOR_FORCE.
func IsColourful(w io.Writer) bool {
	force := os.Getenv("CLICOLOR_FORCE")
	return AllowsColours() && (force != "" && force != "0" || IsTerminal(w))
}

// AllowsColours reports that the environment does not refuse colours: by NO_COLOR, CLICOLOR=0 or TERM=dumb.
func AllowsColours() bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("CLICOLOR") != "0" && os.Getenv("TERM") != "dumb"
}

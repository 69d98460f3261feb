package screen

import (
	"io"
	"os"

	"github.com/fatih/color"
	"golang.org/x/term"
)

// Colours are a terminal's colours. Without a terminal they do nothing.
type Colours struct {
	Enabled                                    bool
	Title, Added, Removed, Changed, Dim, Alert *color.Color
}

// NewColours returns colours that are enabled or not.
func NewColours(enabled bool) *Colours {
	c := &Colours{enabled, color.New(color.Bold), color.New(color.FgGreen), color.New(color.FgRed), color.New(color.FgYellow),
		color.New(color.Faint), color.New(color.FgRed, color.Bold)}
	for _, each := range []*color.Color{c.Title, c.Added, c.Removed, c.Changed, c.Dim, c.Alert} {
		if each.DisableColor(); enabled {
			each.EnableColor()
		}
	}
	return c
}

// Sign returns the colour of a sign: + is added, - removed, ~ changed. It returns nil for any other.
func (c *Colours) Sign(sign byte) *color.Color {
	return map[byte]*color.Color{'+': c.Added, '-': c.Removed, '~': c.Changed}[sign]
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// IsColourful reports whether w gets colours: if it is a terminal that allows them, or if CLICOLOR_FORCE is set.
func IsColourful(w io.Writer) bool {
	force := os.Getenv("CLICOLOR_FORCE")
	return AllowsColours() && (force != "" && force != "0" || IsTerminal(w))
}

// AllowsColours reports that the environment does not refuse colours: by NO_COLOR, CLICOLOR=0 or TERM=dumb.
func AllowsColours() bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("CLICOLOR") != "0" && os.Getenv("TERM") != "dumb"
}

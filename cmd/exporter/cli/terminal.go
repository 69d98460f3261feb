package cli

import (
	"io"
	"os"

	"kubecdc/observe"
)

// IsColourful reports whether colours and progress are wanted there.
func IsColourful(w io.Writer) bool { return IsTerminal(w) && os.Getenv("NO_COLOR") == "" }

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && observe.IsTerminal(f)
}

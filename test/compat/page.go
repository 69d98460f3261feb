package main

import "strings"

// firstLine is the first line of a text.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

func (t *trial) writePage(string) error { return nil }

// gist is the line of a program's complaints that says most: the last cause of a Java trace, or the last line.
func gist(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if cause, found := strings.CutPrefix(lines[i], "Caused by: "); found {
			return cause
		}
	}
	return lines[len(lines)-1]
}

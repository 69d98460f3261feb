// Package cli has what commands share: settings, objects, moments, output formats, progress, exit codes. It knows no command.
//
// A command is a function New… in the package of what its user does: run; ask the past; inspect; steer an exporter that runs; rewind the log.
// snapshot (steer/snapshot.go) is the one to copy.
package cli

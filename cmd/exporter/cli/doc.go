// Package cli has what commands share: settings, objects, moments, output formats, progress, exit codes. It knows no command.
//
// Each command is a function New… in the package for its purpose: run, past (questions), inspect, steer (requests to a running
// exporter), rewind. Copy snapshot (steer/snapshot.go) for a new one.
package cli

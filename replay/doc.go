// Package replay goes back in the log: to an earlier checkpoint of the whole exporter (checkpoints.go), to the offsets from which a
// consumer group reads what came after it (offsets.go), and to the records themselves, which it writes to another place (run.go).
//
// It reads the log through sinks.Reader and writes through Target. It knows no sink, and does not know the settings.
package replay

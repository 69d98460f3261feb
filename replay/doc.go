// Package replay goes back in the log. It finds earlier checkpoints of all slots (checkpoints.go), and the offsets at which a
// consumer group reads what came after one (offsets.go). It also writes records again, to another place (run.go).
//
// It reads the log through sinks.Reader, and writes through Target. It knows no sink and no settings.
package replay

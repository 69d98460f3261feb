package main

// setting changes the exporter's.
type setting struct{ name, value string }

func before(value string) setting { return setting{"KUBECDC_BEFORE", value} }
func codec(value string) setting  { return setting{"KUBECDC_KAFKA_COMPRESSION", value} }

var (
	atLeastOnce = setting{"KUBECDC_KAFKA_DELIVERY", "at-least-once"}
	protocol2   = setting{"KUBECDC_KAFKA_TRANSACTION_PROTOCOL", "2"}
	dropped     = setting{"KUBECDC_MANAGED_FIELDS", "drop"}
	inSQLite    = setting{"KUBECDC_CHECKPOINT", "sqlite"}
	embedded    = setting{"KUBECDC_SINK", "sqlite"}  // with its checkpoint in the same file
	noBackfill  = setting{"KUBECDC_BACKFILL", "off"} // the server has no history, and the row is of the comparison
)

package main

// These are the exporter's measured costs, with its default settings, three brokers with three replicas, and a checkpoint in Postgres.
// Runs took two minutes, at other rates than the plan's, mostly with one slot: docs/performance.md.

// record is what a change takes in its topic, on one replica: alone in a record batch, and among many.
type record struct{ alone, packed float64 }

var records = map[string]record{
	"leases":         {1120, 250},
	"nodes":          {8000, 1000},
	"pods":           {3500, 770},
	"events":         {1190, 200},
	"deployments":    {2480, 500},
	"replicasets":    {2350, 480},
	"endpointslices": {1720, 350},
	"jobs":           {2540, 500},
}

// Seconds of CPU.
const (
	exporterAtRest = 0.0035   // a second, of a process
	exporterBatch  = 0.00157  // a batch: a transaction of Kafka
	exporterCommit = 0.0005   // a commit to the checkpoint
	exporterChange = 0.000005 // a change that comes alone
	exporterKilo   = 0.000052 // and each 1,000 bytes of it
	brokersAtRest  = 0.085    // a second, of three
	brokersBatch   = 0.013    // a batch, of three
	brokersRequest = 0.007    // a request to one of them for a batch, with its replication
	postgresAtRest = 0.003    // a second, for a process
	postgresCommit = 0.0018   // a commit to the checkpoint
	postgresChange = 0.00006  // a change in it
	serverEvent    = 0.00002  // an event of a watch, by a real kube-apiserver
	serverKilo     = 0.000024 // and each 1,000 bytes of it
	serverProof    = 0.00001  // an object in a proof: docs/performance.md
)

// Bytes.
const (
	controlBatch         = 490  // control records of a batch
	controlPartition     = 20   // and for each partition in it
	transactionBatch     = 580  // states of its transaction; compacted
	transactionPartition = 17.5 // and for each partition in it
	walChange            = 1100 // bytes of Postgres' WAL for a change
	walCommit            = 1300 // and a commit
	memoryProcess        = 58e6 // bytes of a process with slots
	memoryObject         = 215  // bytes of a known object
)

// As many partitions has a topic that the exporter makes, and as many brokers the cluster.
const (
	partitions = 6
	brokers    = 3
)

package kafka_test

import (
	"testing"

	"kubecdc/sinks/kafka"
	"kubecdc/sinks/sinktest"
)

var encodings = []string{"debezium-schema", "cloudevents", "object"} // besides the default

func TestContractInEachEncoding(t *testing.T) {
	for _, encoding := range encodings {
		for _, delivery := range []string{kafka.ExactlyOnce, kafka.AtLeastOnce} {
			t.Run(encoding+"/"+delivery, func(t *testing.T) {
				t.Parallel()
				c := fakeCluster(t)
				sinktest.Run(t, func(t *testing.T) sinktest.Place {
					cfg := newConfig(t, c.ListenAddrs())
					cfg.Encoding, cfg.Delivery = encoding, delivery
					p := place(cfg)
					p.NoBefore, p.Brief = encoding == "object", true
					return p
				})
			})
		}
	}
}

// Command informer is the program that people write by hand to get changes into Kafka: client-go's informer and kafka-go's Writer. It
// has no position, knows no gap and may lose what it was writing when it dies. It is measured to be compared with the exporter.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"time"

	"github.com/segmentio/kafka-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "of the API server")
	broker := flag.String("broker", "", "host:port")
	topic := flag.String("topic", "", "to write to")
	codec := flag.String("codec", "none", "of the record batches")
	resource := flag.String("resource", "", "to watch, as plural.version.group; empty: pods, typed")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	writer := &kafka.Writer{
		Addr: kafka.TCP(*broker), Topic: *topic, Balancer: &kafka.Hash{},
		RequiredAcks: kafka.RequireAll, BatchSize: 1000, BatchBytes: 1 << 20, BatchTimeout: 10 * time.Millisecond, Async: true,
		Completion: func(_ []kafka.Message, err error) {
			if err != nil {
				log.Fatal(err)
			}
		},
	}
	if *codec != "none" {
		if err := writer.Compression.UnmarshalText([]byte(*codec)); err != nil {
			log.Fatal(err)
		}
	}
	send := func(op string, change any) {
		if last, ok := change.(cache.DeletedFinalStateUnknown); ok {
			change = last.Obj
		}
		object, ok := change.(metav1.Object)
		if !ok {
			return
		}
		body, err := json.Marshal(object)
		if err != nil {
			log.Fatal(err)
		}
		message := kafka.Message{Key: []byte(object.GetNamespace() + "/" + object.GetName()), Value: body, Headers: []kafka.Header{{Key: "op", Value: []byte(op)}}}
		if err := writer.WriteMessages(context.Background(), message); err != nil {
			log.Fatal(err)
		}
	}
	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0)
	informer, start := factory.Core().V1().Pods().Informer(), factory.Start
	if *resource != "" {
		gvr, _ := schema.ParseResourceArg(*resource)
		any := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(config), 0)
		informer, start = any.ForResource(*gvr).Informer(), any.Start
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { send("c", o) },
		UpdateFunc: func(_, o any) { send("u", o) },
		DeleteFunc: func(o any) { send("d", o) },
	})
	if err != nil {
		log.Fatal(err)
	}
	start(context.Background().Done())
	select {}
}

kafka-console-consumer.sh --bootstrap-server kafka-1:9092 --topic kubecdc.pods --from-beginning \
  --isolation-level read_committed --formatter-property print.key=true

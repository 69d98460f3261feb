kcat -C -b kafka-1:9092 -t kubecdc.pods -X isolation.level=read_committed -f '%k %s\n'

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

// Prints topic, key and value of each record, and fails if a key is not where Kafka's own producer would have put it.
public class Table {
    public static void main(String[] args) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", "kafka-1:9092",
            "isolation.level", "read_committed",
            "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (String topic : List.of("kubecdc.pods", "kubecdc.configmaps")) {
                consumer.partitionsFor(topic).forEach(p -> partitions.add(new TopicPartition(topic, p.partition())));
            }
            consumer.assign(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
                for (var record : consumer.poll(Duration.ofMillis(500))) {
                    check(record, consumer.partitionsFor(record.topic()).size());
                    System.out.println(record.topic() + "\t" + text(record.key()) + "\t" + text(record.value()));
                }
            }
        }
    }

    static void check(ConsumerRecord<byte[], byte[]> record, int partitions) {
        int expected = BuiltInPartitioner.partitionForKey(record.key(), partitions);
        if (record.partition() != expected) {
            throw new IllegalStateException(text(record.key()) + " is on partition " + record.partition() + " of "
                + record.topic() + ": Kafka's producer would choose " + expected);
        }
    }

    static String text(byte[] bytes) throws RuntimeException {
        return bytes == null ? "null" : new String(bytes, java.nio.charset.StandardCharsets.UTF_8);
    }
}

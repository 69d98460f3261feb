import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.QueryableStoreTypes;

// Prints the rows of a KTable once it has all that is committed. The arguments are the application's id and its folder.
public class Streams {
    public static void main(String[] args) throws Exception {
        var settings = new Properties();
        settings.putAll(Map.of(
            "application.id", args[0],
            "state.dir", args[1],
            "bootstrap.servers", "kafka-1:9092",
            "commit.interval.ms", 200,
            StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, StreamsConfig.OPTIMIZE));
        settings.put("consumer.isolation.level", "read_committed");
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        var builder = new StreamsBuilder();
        builder.<String, String>table("kubecdc.pods")
            .filter((key, value) -> !op(value).equals("d"), Materialized.as("pods"));
        try (var admin = Admin.create(settings); var streams = new KafkaStreams(builder.build(settings), settings)) {
            streams.setUncaughtExceptionHandler(e -> {
                e.printStackTrace();
                Runtime.getRuntime().halt(1);
                return null;
            });
            streams.start();
            while (!caughtUp(admin, args[0])) {
                Thread.sleep(200);
            }
            var type = QueryableStoreTypes.<String, String>keyValueStore();
            var store = streams.store(StoreQueryParameters.fromNameAndType("pods", type));
            try (var rows = store.all()) {
                rows.forEachRemaining(row -> System.out.println(row.key + "\t" + row.value));
            }
        }
    }

    static String op(String value) {
        try {
            return new ObjectMapper().readTree(value).get("op").asText();
        } catch (JsonProcessingException e) {
            throw new IllegalArgumentException(e);
        }
    }

    // The group has committed offsets up to the end of each partition.
    static boolean caughtUp(Admin admin, String group) throws Exception {
        var topic = admin.describeTopics(List.of("kubecdc.pods")).allTopicNames().get().get("kubecdc.pods");
        var latest = topic.partitions().stream().collect(
            Collectors.toMap(p -> new TopicPartition("kubecdc.pods", p.partition()), p -> OffsetSpec.latest()));
        var ends = admin.listOffsets(latest, new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).all().get();
        var committed = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        return ends.entrySet().stream().allMatch(end -> committed.get(end.getKey()) != null
            && committed.get(end.getKey()).offset() >= end.getValue().offset());
    }
}

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;
import org.apache.flink.util.Collector;

// Runs the statements of a file, the last of which is a query, and prints the rows that its changelog leaves, as JSON.
//
//   Flink FILE           the query must end by itself (scan.bounded.mode)
//   Flink FILE FOLDER    prints the rows, then an empty line, whenever they have changed; a line of input stops the job with a
//                        savepoint in the folder, from which the next run resumes
public class Flink {
    // How often each row was added, less how often it was retracted.
    static final Map<String, Integer> rows = new TreeMap<>();
    static long changes;

    public static void main(String[] args) throws Exception {
        Path folder = args.length > 1 ? Path.of(args[1]) : null;
        var settings = new Configuration();
        settings.setString("parallelism.default", "2");
        if (folder != null && Files.exists(folder.resolve("savepoint"))) {
            settings.setString("execution.state-recovery.path", Files.readString(folder.resolve("savepoint")));
            for (String row : Files.readAllLines(folder.resolve("rows"))) {
                rows.put(row, 1);
            }
        }
        var env = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        var tables = StreamTableEnvironment.create(env);
        String query = "";
        for (String statement : statements(Files.readString(Path.of(args[0])))) {
            var set = Pattern.compile("SET '(.+)' = '(.+)'").matcher(statement);
            if (set.matches()) {
                tables.getConfig().set(set.group(1), set.group(2));
            } else if (statement.startsWith("SELECT")) {
                query = statement;
            } else {
                tables.executeSql(statement);
            }
        }
        tables.toChangelogStream(tables.sqlQuery(query)).process(new Apply()).setParallelism(1).sinkTo(new DiscardingSink<>());
        if (folder == null) {
            env.execute();
            print();
        } else {
            untilTold(env, folder);
        }
    }

    static List<String> statements(String text) {
        var all = new ArrayList<String>();
        for (String statement : text.replaceAll("(?m)^--.*$", "").split(";\\s*\n")) {
            if (!statement.isBlank()) {
                all.add(statement.strip());
            }
        }
        return all;
    }

    static void untilTold(StreamExecutionEnvironment env, Path folder) throws Exception {
        var job = env.executeAsync();
        for (long shown = -1; System.in.available() == 0; TimeUnit.MILLISECONDS.sleep(300)) {
            if (job.getJobStatus().get().isGloballyTerminalState()) {
                job.getJobExecutionResult().get();
            }
            synchronized (rows) {
                if (shown != changes) {
                    shown = changes;
                    print();
                }
            }
        }
        String savepoint = job.stopWithSavepoint(false, folder.toUri().toString(), SavepointFormatType.CANONICAL).get();
        Files.writeString(folder.resolve("savepoint"), savepoint);
        Files.write(folder.resolve("rows"), rows.keySet());
    }

    // A row that is there twice, or was retracted without having been added, is no row of the right answer.
    static void print() {
        rows.forEach((row, times) -> System.out.println(times == 1 ? row : "{\"times\":" + times + ",\"row\":" + row + "}"));
        System.out.println();
    }

    public static class Apply extends ProcessFunction<Row, Row> {
        @Override
        public void processElement(Row row, Context context, Collector<Row> out) throws Exception {
            int times = row.getKind() == RowKind.INSERT || row.getKind() == RowKind.UPDATE_AFTER ? 1 : -1;
            String text = new ObjectMapper().writeValueAsString(json(row));
            synchronized (rows) {
                changes++;
                if (rows.merge(text, times, Integer::sum) == 0) {
                    rows.remove(text);
                }
            }
        }
    }

    static Object json(Object value) {
        if (value instanceof Row row) {
            var members = new LinkedHashMap<String, Object>();
            for (String name : row.getFieldNames(true)) {
                members.put(name, json(row.getField(name)));
            }
            return members;
        }
        if (value instanceof Map<?, ?> map) {
            return new TreeMap<>(map); // one text for one row
        }
        return value instanceof Instant ? value.toString() : value;
    }
}

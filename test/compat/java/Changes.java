// Makes the table of docs/dashboards.md, which Iceberg's sink connector appends to.
//
//   java Changes.java JDBC-URL USER PASSWORD WAREHOUSE
import static org.apache.iceberg.types.Types.NestedField.optional;

import java.util.Map;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.Schema;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.types.Types;

public class Changes {
  public static void main(String[] args) {
    var catalog = (JdbcCatalog) CatalogUtil.loadCatalog("org.apache.iceberg.jdbc.JdbcCatalog", "iceberg",
        Map.of("uri", args[0], "jdbc.user", args[1], "jdbc.password", args[2], "warehouse", args[3]),
        new org.apache.hadoop.conf.Configuration());
    var namespace = Namespace.of("kubernetes");
    catalog.createNamespace(namespace);
    var text = Types.StringType.get();
    catalog.createTable(TableIdentifier.of(namespace, "changes"), new Schema(
        optional(1, "op", text), optional(2, "ts_ms", Types.LongType.get()), optional(3, "before", text), optional(4, "after", text),
        optional(5, "source", Types.StructType.of(optional(6, "db", text), optional(7, "schema", text), optional(8, "table", text),
            optional(9, "uid", text), optional(10, "resourceVersion", text), optional(11, "gap", text)))));
  }
}

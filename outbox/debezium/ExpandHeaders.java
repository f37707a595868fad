import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.header.Headers;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * A transform of Kafka Connect that replaces the header {@code headers}, which Debezium's outbox event router takes from the column of
 * that name, by the event's own headers. All headers become bytes, for ByteArrayConverter. An event's own {@code idempotency-key}
 * replaces the event's ID, in upper or lower case, as with the polling relay.
 */
public final class ExpandHeaders<R extends ConnectRecord<R>> implements Transformation<R> {
    private static final String COLUMN = "headers";
    private static final String KEY = "idempotency-key";
    private static final ObjectMapper JSON = new ObjectMapper();

    @Override
    public R apply(R r) {
        var column = r.headers().lastWithName(COLUMN);
        if (column == null) {
            return r;
        }
        var own = expand(r, column);
        boolean ownKey = false;
        for (Header h : own) {
            ownKey |= h.key().equalsIgnoreCase(KEY);
        }
        Headers all = new ConnectHeaders();
        for (Header h : r.headers()) {
            if (h != column && !(h.key().equals(KEY) && ownKey)) {
                all.addBytes(h.key(), bytes(h.value()));
            }
        }
        own.forEach(all::add);
        return r.newRecord(r.topic(), r.kafkaPartition(), r.keySchema(), r.key(), r.valueSchema(), r.value(), r.timestamp(), all);
    }

    /** The column is NULL, or [{"key":…,"value":…}], with "base64" for a value that is not text, or neither for null. */
    private Headers expand(R r, Header column) {
        var own = new ConnectHeaders();
        if (column.value() == null) {
            return own;
        }
        try {
            var list = JSON.readTree(column.value().toString());
            if (!list.isArray()) {
                throw new DataException(invalid(r));
            }
            for (JsonNode h : list) {
                if (!h.path("key").isTextual()) {
                    throw new DataException(invalid(r));
                }
                byte[] value = h.hasNonNull("base64") ? h.get("base64").binaryValue() : null;
                if (h.hasNonNull("value")) {
                    value = bytes(h.get("value").textValue());
                }
                own.add(h.get("key").textValue(), new SchemaAndValue(Schema.OPTIONAL_BYTES_SCHEMA, value));
            }
            return own;
        } catch (IOException e) { // no JSON, or no base64
            throw new DataException(invalid(r), e);
        }
    }

    private String invalid(R r) {
        var id = r.headers().lastWithName("event-id");
        return "event " + (id == null ? "without ID" : id.value()) + ": the column headers: want [{\"key\":…,\"value\":…}]";
    }

    private static byte[] bytes(Object value) {
        if (value == null || value instanceof byte[]) {
            return (byte[]) value;
        }
        return value.toString().getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void configure(Map<String, ?> settings) {}

    @Override
    public void close() {}
}

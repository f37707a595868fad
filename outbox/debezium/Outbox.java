import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.DebeziumEngine.RecordCommitter;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/**
 * Debezium without Kafka Connect: reads the outbox from the write-ahead log and converts each record as Connect does, with the
 * same converters.
 *
 * <p>usage: java -cp 'lib/*' Outbox.java BROKERS PROPERTIES [NAME=VALUE]...
 */
public final class Outbox {
    private final KafkaProducer<byte[], byte[]> producer;
    private final Converter keys;
    private final Converter values;
    private final HeaderConverter headers;

    private Outbox(String brokers, Properties config) throws ReflectiveOperationException {
        producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", brokers, "acks", "all", "enable.idempotence", "true"),
                new ByteArraySerializer(), new ByteArraySerializer());
        keys = (Converter) create(config, "key.converter");
        keys.configure(Map.of(), true);
        values = (Converter) create(config, "value.converter");
        values.configure(Map.of(), false);
        headers = (HeaderConverter) create(config, "header.converter");
        headers.configure(Map.of("converter.type", "header"));
    }

    private static Object create(Properties config, String name) throws ReflectiveOperationException {
        return Class.forName(config.getProperty(name)).getDeclaredConstructor().newInstance();
    }

    private ProducerRecord<byte[], byte[]> convert(SourceRecord r) {
        var record = new ProducerRecord<>(
                r.topic(), r.kafkaPartition(), r.timestamp(),
                keys.fromConnectData(r.topic(), r.keySchema(), r.key()),
                values.fromConnectData(r.topic(), r.valueSchema(), r.value()));
        for (var h : r.headers()) {
            record.headers().add(h.key(), headers.fromConnectHeader(r.topic(), h.key(), h.schema(), h.value()));
        }
        return record;
    }

    /** Sends a batch and commits it when all its records are in Kafka. */
    private void send(List<ChangeEvent<SourceRecord, SourceRecord>> batch,
            RecordCommitter<ChangeEvent<SourceRecord, SourceRecord>> committer) throws InterruptedException {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (var event : batch) {
            sent.add(producer.send(convert(event.value())));
        }
        for (int i = 0; i < sent.size(); i++) {
            try {
                sent.get(i).get();
            } catch (java.util.concurrent.ExecutionException e) {
                throw new IllegalStateException("not sent: " + batch.get(i), e.getCause());
            }
            committer.markProcessed(batch.get(i));
        }
        committer.markBatchFinished();
    }

    public static void main(String[] args) throws Exception {
        var config = new Properties();
        try (Reader reader = Files.newBufferedReader(Path.of(args[1]))) {
            config.load(reader);
        }
        for (int i = 2; i < args.length; i++) {
            int at = args[i].indexOf('=');
            config.setProperty(args[i].substring(0, at), args[i].substring(at + 1));
        }
        var outbox = new Outbox(args[0], config);
        var ended = new CountDownLatch(1);
        var failed = new boolean[1];
        DebeziumEngine<ChangeEvent<SourceRecord, SourceRecord>> engine = DebeziumEngine.create(Connect.class)
                .using(config)
                .notifying(outbox::send)
                .using((success, message, error) -> {
                    if (!success) {
                        System.err.println(message);
                        if (error != null) {
                            error.printStackTrace();
                        }
                        failed[0] = true;
                    }
                    ended.countDown();
                })
                .build();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                engine.close();
                outbox.producer.close();
            } catch (Exception e) {
                e.printStackTrace();
            }
        }));
        var thread = new Thread(engine, "engine");
        thread.setDaemon(true);
        thread.start();
        ended.await();
        Runtime.getRuntime().halt(failed[0] ? 1 : 0);
    }
}

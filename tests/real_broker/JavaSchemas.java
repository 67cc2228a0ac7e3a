import com.google.protobuf.Timestamp;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.common.schema.KeyValue;
import org.apache.pulsar.common.schema.KeyValueEncodingType;

/** Sends a value of each schema to a topic of its own, or receives it, with the official Java client. */
public class JavaSchemas {
    public enum Color { RED, BLUE }

    public static class Inner {
        public int size;
    }

    public static class Item {
        public Color color;
        public int count;
        public Inner inner;
        public String name;
        public Map<String, Long> prices;

        @Override
        public String toString() {
            return name + " " + count + " " + color + " " + (inner == null ? null : inner.size) + " " + prices;
        }
    }

    static Item item() {
        Item item = new Item();
        item.name = "grün";
        item.count = 3;
        item.color = Color.BLUE;
        item.inner = new Inner();
        item.inner.size = 7;
        item.prices = Map.of("a", 5L);
        return item;
    }

    record Case(Schema<?> schema, Object value) {}

    static Map<String, Case> cases() {
        Map<String, Case> cases = new LinkedHashMap<>();
        Schema<Item> avro = Schema.AVRO(Item.class);
        cases.put("string", new Case(Schema.STRING, "grün"));
        cases.put("boolean", new Case(Schema.BOOL, true));
        cases.put("int8", new Case(Schema.INT8, (byte) -5));
        cases.put("int16", new Case(Schema.INT16, (short) -300));
        cases.put("int32", new Case(Schema.INT32, -70000));
        cases.put("int64", new Case(Schema.INT64, -5000000000L));
        cases.put("float", new Case(Schema.FLOAT, 1.5f));
        cases.put("double", new Case(Schema.DOUBLE, -2.25));
        cases.put("date", new Case(Schema.DATE, new Date(1_700_000_000_123L)));
        cases.put("timestamp", new Case(Schema.TIMESTAMP, new java.sql.Timestamp(1_700_000_000_123L)));
        cases.put("time", new Case(Schema.TIME, new java.sql.Time(3_661_001L)));
        cases.put("instant", new Case(Schema.INSTANT, Instant.ofEpochSecond(1_700_000_000L, 123_456_000)));
        cases.put("local_date", new Case(Schema.LOCAL_DATE, LocalDate.of(1960, 2, 29)));
        cases.put("local_time", new Case(Schema.LOCAL_TIME, LocalTime.of(23, 59, 58, 123_456_000)));
        cases.put("local_date_time", new Case(Schema.LOCAL_DATE_TIME, LocalDateTime.of(1960, 2, 29, 1, 2, 3, 4_000)));
        cases.put("json", new Case(Schema.JSON(Item.class), item()));
        cases.put("avro", new Case(avro, item()));
        cases.put("inline", new Case(
                Schema.KeyValue(Schema.STRING, avro, KeyValueEncodingType.INLINE), new KeyValue<>("key", item())));
        cases.put("separated", new Case(
                Schema.KeyValue(avro, Schema.INT32, KeyValueEncodingType.SEPARATED), new KeyValue<>(item(), 5)));
        cases.put("null_value", new Case(
                Schema.KeyValue(Schema.STRING, Schema.INT32, KeyValueEncodingType.SEPARATED), new KeyValue<>("k", null)));
        cases.put("null_key", new Case(
                Schema.KeyValue(Schema.STRING, Schema.INT32, KeyValueEncodingType.INLINE), new KeyValue<>(null, 5)));
        cases.put("native", new Case(Schema.PROTOBUF_NATIVE(Timestamp.class),
                Timestamp.newBuilder().setSeconds(5).setNanos(6).build()));
        cases.put("protobuf", new Case(Schema.PROTOBUF(Timestamp.class),
                Timestamp.newBuilder().setSeconds(5).setNanos(6).build()));
        return cases;
    }

    static String text(Object value) {
        if (value instanceof KeyValue<?, ?> pair) {
            return text(pair.getKey()) + " = " + text(pair.getValue());
        }
        if (value instanceof Date date) {
            return String.valueOf(date.getTime());
        }
        if (value instanceof Timestamp timestamp) {
            return timestamp.getSeconds() + "." + timestamp.getNanos();
        }
        return String.valueOf(value);
    }

    @SuppressWarnings("unchecked")
    public static void main(String[] arguments) throws Exception {
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build()) {
            for (Map.Entry<String, Case> entry : cases().entrySet()) {
                String topic = arguments[1] + "-" + entry.getKey();
                Schema<Object> schema = (Schema<Object>) entry.getValue().schema();
                try (Consumer<Object> consumer = client.newConsumer(schema).topic(topic).subscriptionName("java")
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
                        Producer<Object> producer = client.newProducer(schema).topic(topic).create()) {
                    Object received = consumer.receive(20, TimeUnit.SECONDS).getValue();
                    System.out.println("got\t" + entry.getKey() + "\t" + text(received).equals(text(entry.getValue().value()))
                            + "\t" + text(received));
                    producer.send(entry.getValue().value());
                } catch (Exception error) {
                    System.out.println("got\t" + entry.getKey() + "\tfalse\t" + error);
                }
            }
        }
    }
}

// What the official Java client is told to do before the recorder. Each line it prints is one JSON value: the step that begins (it waits
// for a line in return) or a message that was sent, with the id the broker gave it.

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.*;
import org.apache.pulsar.client.api.schema.GenericRecord;
import org.apache.pulsar.client.api.transaction.Transaction;
import org.apache.pulsar.client.impl.BatchMessageIdImpl;
import org.apache.pulsar.client.impl.MessageIdImpl;

public class JavaClient {
    record Point(int x) {}

    record Planned(String payload, String fields, UnaryOperator<TypedMessageBuilder<byte[]>> set) {}

    static PulsarClient client;

    static void step(String label) throws Exception {
        System.out.println("{\"step\": \"Java: " + label + "\"}");
        System.in.read();
    }

    static Planned plan(String payload, String fields, UnaryOperator<TypedMessageBuilder<byte[]>> set) {
        return new Planned(payload, fields, set);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static void send(Producer<byte[]> producer, List<Planned> plans) throws Exception {
        List<CompletableFuture<MessageId>> sent = new ArrayList<>();
        for (Planned each : plans) {
            TypedMessageBuilder<byte[]> message = producer.newMessage();
            message.value(each.payload == null ? null : bytes(each.payload));
            sent.add(each.set.apply(message).sendAsync());
        }
        producer.flush();
        for (int i = 0; i < sent.size(); i++) {
            MessageIdImpl id = (MessageIdImpl) sent.get(i).get();
            int index = id instanceof BatchMessageIdImpl batch ? batch.getBatchIndex() : -1;
            String payload = plans.get(i).payload;
            String value = payload == null ? "null" : '"' + HexFormat.of().formatHex(bytes(payload)) + '"';
            System.out.printf(
                "{\"ledger\": %d, \"entry\": %d, \"batch_index\": %d, \"message\": {\"payload\": %s%s}}%n",
                id.getLedgerId(), id.getEntryId(), index, value, plans.get(i).fields);
        }
    }

    static ProducerBuilder<byte[]> producer(String topic, boolean batching) {
        return client.newProducer().topic(topic).enableBatching(batching).batchingMaxPublishDelay(1, TimeUnit.MINUTES);
    }

    static void receive(Consumer<?> consumer, int count) throws Exception {
        for (int i = 0; i < count; i++) {
            Message<?> message = consumer.receive(10, TimeUnit.SECONDS);
            if (message == null) throw new IllegalStateException("nothing received");
            consumer.acknowledge(message);
        }
    }

    static void codecs() throws Exception {
        String text = "the quick brown fox jumps over the lazy dog; ".repeat(3);
        for (CompressionType codec : CompressionType.values()) {
            String topic = "java-" + codec;
            try (Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName("s").subscribe()) {
                for (boolean batching : new boolean[] {false, true}) {
                    step(codec + (batching ? ", batched" : ", plain"));
                    Map<String, Object> compressAll = Map.of("compressMinMsgBodySize", 0);
                    Producer<byte[]> producer =
                        producer(topic, batching).compressionType(codec).loadConf(compressAll).create();
                    send(producer, List.of(plan(text, "", m -> m), plan("", "", m -> m)));
                    receive(consumer, 2);
                }
            }
        }
    }

    static void fields() throws Exception {
        List<Planned> plans = List.of(
            plan("key", ", \"partition_key\": \"key\"", m -> m.key("key")),
            plan("bytes", ", \"key_bytes\": \"00ff\"", m -> m.keyBytes(new byte[] {0, -1})),
            plan("order", ", \"ordering_key\": \"o\"", m -> m.orderingKey(bytes("o"))),
            plan("props", ", \"properties\": {\"a\": \"1\", \"b\": \"\"}", m -> m.property("a", "1").property("b", "")),
            plan("time", ", \"event_timestamp\": 1600000000123", m -> m.eventTime(1600000000123L)),
            plan("seq", ", \"sequence_id\": 1000", m -> m.sequenceId(1000)),
            plan(null, ", \"partition_key\": \"gone\"", m -> m.key("gone")));
        for (boolean batching : new boolean[] {false, true}) {
            step("fields" + (batching ? ", batched" : ", plain"));
            send(producer("java-fields", batching).create(), plans);
        }
        step("key-based batches");
        List<Planned> keyed = new ArrayList<>();
        for (String key : List.of("a", "b", "a", "c")) {
            keyed.add(plan("of " + key, ", \"partition_key\": \"" + key + '"', m -> m.key(key)));
        }
        send(producer("java-keys", true).batcherBuilder(BatcherBuilder.KEY_BASED).create(), keyed);
    }

    static void transaction() throws Exception {
        step("acknowledgement with a receipt");
        Consumer<byte[]> consumer =
            client.newConsumer().topic("java-txn").subscriptionName("s").isAckReceiptEnabled(true).subscribe();
        Producer<byte[]> producer = producer("java-txn", false).sendTimeout(0, TimeUnit.SECONDS).create();
        producer.send(bytes("before"));
        receive(consumer, 1);
        step("transaction");
        producer.send(bytes("first"));
        Transaction transaction = client.newTransaction().withTransactionTimeout(1, TimeUnit.MINUTES).build().get();
        producer.newMessage(transaction).value(bytes("inside")).send();
        consumer.acknowledgeAsync(consumer.receive().getMessageId(), transaction).get();
        transaction.commit().get();
        receive(consumer, 1);
    }

    static void schemas() throws Exception {
        step("schemas");
        Producer<Point> points = client.newProducer(Schema.JSON(Point.class)).topic("java-schema").create();
        Consumer<GenericRecord> any =
            client.newConsumer(Schema.AUTO_CONSUME()).topic("java-schema").subscriptionName("s").subscribe();
        points.send(new Point(1));
        receive(any, 1);
        Producer<byte[]> unknown = client.newProducer(Schema.AUTO_PRODUCE_BYTES()).topic("java-schema").create();
        unknown.send(bytes("{\"x\": 2}"));
        points.newMessage(Schema.STRING).value("other").sendAsync().exceptionally(refused -> null).get();
    }

    static void pattern() throws Exception {
        step("pattern");
        Pattern wanted = Pattern.compile("persistent://public/default/java-watched-.*");
        Consumer<byte[]> consumer = client.newConsumer().topicsPattern(wanted).subscriptionName("s").subscribe();
        Thread.sleep(500);
        producer("java-watched-1", false).create();
        Thread.sleep(500);
        consumer.close();
    }

    public static void main(String[] arguments) throws Exception {
        client = PulsarClient.builder().serviceUrl(arguments[0]).enableTransaction(true).build();
        codecs();
        fields();
        transaction();
        schemas();
        pattern();
        client.close();
        System.exit(0);
    }
}

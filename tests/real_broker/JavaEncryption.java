import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.CryptoKeyReader;
import org.apache.pulsar.client.api.EncryptionKeyInfo;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.impl.ProducerImpl;

/**
 * Receives what was sent to some topics, and sends to them, with the official Java client and its end-to-end
 * encryption. Arguments: the service URL, the folder of the keys, and for each topic its name, what it is sent in, and
 * the names of its keys.
 */
public class JavaEncryption {
    static final int MESSAGES = 3;

    record Keys(Path folder) implements CryptoKeyReader {
        EncryptionKeyInfo read(String name) {
            try {
                return new EncryptionKeyInfo(Files.readAllBytes(folder.resolve(name)), Map.of("from", "java"));
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        @Override
        public EncryptionKeyInfo getPublicKey(String name, Map<String, String> metadata) {
            return read(name + "-public.pem");
        }

        @Override
        public EncryptionKeyInfo getPrivateKey(String name, Map<String, String> metadata) {
            System.out.println("metadata\t" + name + "\t" + metadata);
            return read(name + "-private.pem");
        }
    }

    static void form(ProducerBuilder<byte[]> builder, String form) {
        builder.enableBatching(form.contains("batched")).batchingMaxPublishDelay(10, TimeUnit.SECONDS);
        if (form.contains("compressed")) {
            builder.compressionType(CompressionType.ZSTD);
        }
        if (form.contains("chunked")) {
            builder.enableChunking(true).chunkMaxMessageSize(form.contains("compressed") ? 7 : 400);
        }
    }

    /**
     * Wait for the data key, which a task makes that starts with the producer. What is sent meanwhile may have another
     * data key than the one that goes with it, and nobody could decrypt it.
     */
    static void awaitDataKey(Producer<byte[]> producer, int names) throws Exception {
        Field crypto = ProducerImpl.class.getDeclaredField("msgCrypto");
        crypto.setAccessible(true);
        Field wrapped = crypto.get(producer).getClass().getDeclaredField("encryptedDataKeyMap");
        wrapped.setAccessible(true);
        while (((Map<?, ?>) wrapped.get(crypto.get(producer))).size() < names) {
            Thread.sleep(1);
        }
    }

    public static void main(String[] arguments) throws Exception {
        CryptoKeyReader keys = new Keys(Path.of(arguments[1]));
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build()) {
            for (int at = 2; at < arguments.length; at += 3) {
                String topic = arguments[at];
                String form = arguments[at + 1];
                String[] names = arguments[at + 2].split(",");
                try (Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName("java")
                        .cryptoKeyReader(keys)
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
                    int expected = form.equals("letter") ? 1 : MESSAGES;
                    for (int number = 0; number < expected; number++) {
                        Message<byte[]> message = consumer.receive(20, TimeUnit.SECONDS);
                        System.out.println("got\t" + topic + "\t"
                                + (message == null ? "nothing" : new String(message.getData()))
                                + "\t" + (message == null ? "" : message.getKey() + message.getProperty("a")));
                    }
                }
                if (form.equals("letter")) {
                    continue;
                }
                ProducerBuilder<byte[]> builder = client.newProducer().topic(topic).cryptoKeyReader(keys);
                form(builder, form);
                for (String name : names) {
                    builder.addEncryptionKey(name);
                }
                try (Producer<byte[]> producer = builder.create()) {
                    awaitDataKey(producer, names.length);
                    for (int number = 0; number < MESSAGES; number++) {
                        producer.newMessage().key("key").property("a", "b")
                                .value(("java" + number).repeat(200).getBytes()).sendAsync();
                    }
                    producer.flush();
                } catch (Exception error) {
                    System.out.println("failed\t" + topic + "\t" + error);
                }
            }
        }
    }
}

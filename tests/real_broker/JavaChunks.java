import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;

/** Receives so many messages with the official Java client, and tells what it knows of each. */
public class JavaChunks {
    public static void main(String[] arguments) throws Exception {
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build();
                Consumer<byte[]> consumer = client.newConsumer()
                        .topic(arguments[1])
                        .subscriptionName("s")
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                        .subscribe()) {
            for (int count = Integer.parseInt(arguments[2]); count > 0; count--) {
                Message<byte[]> message = consumer.receive(30, TimeUnit.SECONDS);
                System.out.println(String.join("\t", "got", new String(message.getData()), message.getProducerName(),
                        Long.toString(message.getSequenceId()), String.valueOf(message.getKey()),
                        Boolean.toString(message.hasOrderingKey())));
                consumer.acknowledge(message);
            }
        }
    }
}

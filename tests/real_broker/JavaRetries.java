import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;

/** Receives so many messages with the official Java client, tells what it got, and puts each off. */
public class JavaRetries {
    public static void main(String[] arguments) throws Exception {
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build();
                Consumer<byte[]> consumer = client.newConsumer()
                        .topic(arguments[1])
                        .subscriptionName("s")
                        .subscriptionType(SubscriptionType.Shared)
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                        .enableRetry(true)
                        .subscribe()) {
            List<Message<byte[]>> received = new ArrayList<>();
            while (received.size() < Integer.parseInt(arguments[2])) {
                Message<byte[]> message = consumer.receive(30, TimeUnit.SECONDS);
                StringBuilder told = new StringBuilder("got\t" + new String(message.getData()));
                new TreeMap<>(message.getProperties()).forEach((key, value) -> told.append("\t" + key + "=" + value));
                System.out.println(told);
                received.add(message);
            }
            for (Message<byte[]> message : received) {
                consumer.reconsumeLater(message, 1, TimeUnit.MILLISECONDS);
            }
        }
    }
}

import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.transaction.Transaction;

/** Twice consumes so many messages and produces their results in a transaction, which it aborts and then commits. */
public class JavaTransactions {
    public static void main(String[] arguments) throws Exception {
        try (PulsarClient client =
                        PulsarClient.builder().serviceUrl(arguments[0]).enableTransaction(true).build();
                Consumer<byte[]> consumer = client.newConsumer()
                        .topic(arguments[1])
                        .subscriptionName("s")
                        .subscriptionType(SubscriptionType.Shared)
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                        .subscribe();
                Producer<byte[]> producer = client.newProducer()
                        .topic(arguments[2])
                        .sendTimeout(0, TimeUnit.SECONDS)
                        .create()) {
            for (String end : new String[] {"aborted", "committed"}) {
                Transaction transaction = client.newTransaction()
                        .withTransactionTimeout(1, TimeUnit.MINUTES)
                        .build()
                        .get();
                for (int count = 0; count < Integer.parseInt(arguments[3]); count++) {
                    Message<byte[]> message = consumer.receive(30, TimeUnit.SECONDS);
                    String result = new String(message.getData()) + " " + end;
                    producer.newMessage(transaction).value(result.getBytes()).send();
                    consumer.acknowledgeAsync(message.getMessageId(), transaction).get();
                }
                if (end.equals("aborted")) {
                    transaction.abort().get();
                } else {
                    transaction.commit().get();
                }
            }
        }
    }
}

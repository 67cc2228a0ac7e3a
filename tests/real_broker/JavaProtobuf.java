import com.google.protobuf.Message;
import java.nio.charset.StandardCharsets;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;

/** Announces a generated class with the official Java client, `URL TOPIC CLASS`, and prints the definition. */
public class JavaProtobuf {
    public static void main(String[] arguments) throws Exception {
        Class<? extends Message> message = Class.forName(arguments[2]).asSubclass(Message.class);
        Schema<? extends Message> schema = Schema.PROTOBUF(message);
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build()) {
            client.newProducer(schema).topic(arguments[1]).create().close();
        }
        System.out.println("made\t" + new String(schema.getSchemaInfo().getSchema(), StandardCharsets.UTF_8));
        System.out.println("made\t" + schema.getSchemaInfo().getProperties().get("__PARSING_INFO__"));
    }
}

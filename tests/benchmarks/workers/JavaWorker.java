// The Java client under measurement: it reads a JSON object from each line of its standard input, does what that says,
// and answers with one, as python_worker.py does. Times are seconds, and those of a whole run are from its first call to
// the last receipt or message.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.pulsar.client.api.*;
import org.apache.pulsar.shade.com.fasterxml.jackson.databind.ObjectMapper;

@SuppressWarnings("unchecked")
public class JavaWorker {
    static final int PATIENCE = 60;
    static final ObjectMapper JSON = new ObjectMapper();
    static PulsarClient client;

    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(done(JSON.readValue(line, Map.class))));
        }
        System.exit(0);
    }

    static Map<String, Object> done(Map<String, Object> request) throws Exception {
        return switch ((String) request.get("do")) {
            case "connect" -> connect(request);
            case "disconnect" -> disconnect();
            case "produce" -> produce(request);
            case "sync" -> sync(request);
            case "consume" -> consume(request);
            case "latency" -> latency(request);
            case "memory" -> memory();
            default -> throw new IllegalArgumentException(request.toString());
        };
    }

    static Map<String, Object> connect(Map<String, Object> request) throws Exception {
        int threads = (int) request.getOrDefault("threads", 1);
        client = PulsarClient.builder()
                .serviceUrl((String) request.get("url")).ioThreads(threads).listenerThreads(threads).build();
        return Map.of();
    }

    static Map<String, Object> disconnect() throws Exception {
        client.close();
        return Map.of();
    }

    static Map<String, Object> produce(Map<String, Object> request) throws Exception {
        int messages = (int) request.get("messages");
        byte[] payload = bytes(request);
        String key = (String) request.get("key");
        var properties = (Map<String, String>) request.get("properties");
        var producers = new ArrayList<Producer<byte[]>>();
        for (String topic : (List<String>) request.get("topics")) {
            producers.add(producer(topic, request));
        }
        var left = new CountDownLatch(1);
        var pending = new AtomicInteger(messages);
        var failed = new AtomicInteger();
        System.gc();
        long cpu = cpu(), began = System.nanoTime();
        for (int number = 0; number < messages; number++) {
            var message = producers.get(number % producers.size()).newMessage().value(payload);
            if (key != null) {
                message.key(key);
            }
            if (properties != null) {
                message.properties(properties);
            }
            message.sendAsync().whenComplete((id, error) -> {
                if (error != null) {
                    failed.incrementAndGet();
                }
                if (pending.decrementAndGet() == 0) {
                    left.countDown();
                }
            });
        }
        await(left);
        var took = took(began, cpu, messages);
        for (var producer : producers) {
            producer.close();
        }
        if (failed.get() > 0) {
            throw new IllegalStateException(failed + " failed");
        }
        return took;
    }

    static Map<String, Object> sync(Map<String, Object> request) throws Exception {
        int messages = (int) request.get("messages");
        byte[] payload = bytes(request);
        var producer = producer((String) request.get("topic"), request);
        double[] times = new double[messages];
        System.gc();
        long cpu = cpu();
        for (int number = 0; number < messages; number++) {
            long began = System.nanoTime();
            producer.send(payload);
            times[number] = (System.nanoTime() - began) / 1e9;
        }
        double used = (cpu() - cpu) / 1e9;
        producer.close();
        return Map.of("times", times, "cpu", used, "messages", messages);
    }

    static Map<String, Object> consume(Map<String, Object> request) throws Exception {
        int messages = (int) request.get("messages");
        var octets = new AtomicLong();
        System.gc();
        long cpu = cpu(), began = System.nanoTime();
        if ("listener".equals(request.getOrDefault("mode", "receive"))) {
            var left = new CountDownLatch(messages);
            var consumer = consumer(request).messageListener((from, message) -> {
                octets.addAndGet(message.getData().length);
                from.acknowledgeAsync(message);
                left.countDown();
            }).subscribe();
            await(left);
            consumer.close();
        } else {
            var consumer = consumer(request).subscribe();
            for (int number = 0; number < messages; number++) {
                var message = consumer.receive(PATIENCE, TimeUnit.SECONDS);
                octets.addAndGet(message.getData().length);
                consumer.acknowledgeAsync(message);
            }
            consumer.close();
        }
        var took = took(began, cpu, messages);
        took.put("octets", octets.get());
        return took;
    }

    static Map<String, Object> latency(Map<String, Object> request) throws Exception {
        int messages = (int) request.get("messages");
        double rate = ((Number) request.get("rate")).doubleValue();
        byte[] payload = bytes(request);
        var consumer = consumer(request).subscribe();
        var producer = producer((String) request.get("topic"), request);
        double[] times = new double[messages];
        var receiver = new Thread(() -> {
            try {
                for (int number = 0; number < messages; number++) {
                    var message = consumer.receive(PATIENCE, TimeUnit.SECONDS);
                    long due = Long.parseLong(new String(message.getData(), 0, 20, StandardCharsets.US_ASCII).trim());
                    times[number] = (System.nanoTime() - due) / 1e9;
                    consumer.acknowledgeAsync(message);
                }
            } catch (PulsarClientException error) {
                throw new IllegalStateException(error);
            }
        });
        receiver.start();
        long start = System.nanoTime() + 200_000_000L;
        for (int number = 0; number < messages; number++) {
            long due = start + (long) (number / rate * 1e9);
            for (long wait = due - System.nanoTime(); wait > 0; wait = due - System.nanoTime()) {
                TimeUnit.NANOSECONDS.sleep(wait);
            }
            byte[] content = payload.clone();
            System.arraycopy(String.format("%20d", due).getBytes(StandardCharsets.US_ASCII), 0, content, 0, 20);
            producer.sendAsync(content);
        }
        receiver.join();
        consumer.close();
        producer.close();
        return Map.of("times", times);
    }

    static Map<String, Object> memory() throws Exception {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) {
                return Map.of("bytes", Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024);
            }
        }
        throw new IllegalStateException("no VmHWM");
    }

    static Producer<byte[]> producer(String topic, Map<String, Object> request) throws Exception {
        var options = new HashMap<String, Object>((Map<String, Object>) request.get("options"));
        var builder = client.newProducer().topic(topic).enableBatching((boolean) options.getOrDefault("batching_enabled", true));
        if (options.containsKey("batching_max_publish_delay_ms")) {
            builder.batchingMaxPublishDelay((int) options.get("batching_max_publish_delay_ms"), TimeUnit.MILLISECONDS);
        }
        if (options.containsKey("batching_max_messages")) {
            builder.batchingMaxMessages((int) options.get("batching_max_messages"));
        }
        if (options.containsKey("batching_max_allowed_size_in_bytes")) {
            builder.batchingMaxBytes((int) options.get("batching_max_allowed_size_in_bytes"));
        }
        if (options.containsKey("compression_type")) {
            builder.compressionType(CompressionType.valueOf(((String) options.get("compression_type")).toUpperCase()));
        }
        int pending = (int) options.getOrDefault("max_pending_messages", 1000);
        return builder.maxPendingMessages(pending).blockIfQueueFull(true).create();
    }

    static ConsumerBuilder<byte[]> consumer(Map<String, Object> request) {
        var options = (Map<String, Object>) request.getOrDefault("options", Map.of());
        return client.newConsumer().topic((String) request.get("topic")).subscriptionName("measured")
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .receiverQueueSize((int) options.getOrDefault("receiver_queue_size", 1000));
    }

    static byte[] bytes(Map<String, Object> request) {
        return ((String) request.get("payload")).getBytes(StandardCharsets.UTF_8);
    }

    static void await(CountDownLatch left) throws InterruptedException {
        if (!left.await(PATIENCE, TimeUnit.SECONDS)) {
            throw new IllegalStateException("not all is through");
        }
    }

    static long cpu() {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime();
    }

    static Map<String, Object> took(long began, long cpu, int messages) {
        var took = new HashMap<String, Object>();
        took.put("seconds", (System.nanoTime() - began) / 1e9);
        took.put("cpu", (cpu() - cpu) / 1e9);
        took.put("messages", messages);
        return took;
    }
}

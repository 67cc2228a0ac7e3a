// What the Java client makes of keys: for each line, a key's UTF-16 units in hexadecimal, it prints both of its hashes.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.pulsar.client.impl.JavaStringHash;
import org.apache.pulsar.client.impl.Murmur3Hash32;

public class KeyHashes {
    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        var out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String key = new String(HexFormat.of().parseHex(line), StandardCharsets.UTF_16BE);
            out.append(JavaStringHash.getInstance().makeHash(key)).append(' ');
            out.append(Murmur3Hash32.getInstance().makeHash(key)).append('\n');
        }
        System.out.print(out);
    }
}

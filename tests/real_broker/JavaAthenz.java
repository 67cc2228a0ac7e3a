import com.yahoo.athenz.auth.token.PrincipalToken;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.pulsar.client.api.AuthenticationDataProvider;
import org.apache.pulsar.client.impl.auth.AuthenticationAthenz;

/** Answers lines. "get FILE": what the Java client gives a broker, with the settings in the file. "verify TOKEN KEYFILE": Athenz's word. */
public class JavaAthenz {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            if (words[0].equals("get")) {
                AuthenticationAthenz athenz = new AuthenticationAthenz();
                athenz.configure(Files.readString(Path.of(words[1])));
                AuthenticationDataProvider data = athenz.getAuthData();
                say(athenz.getAuthMethodName(), data.getCommandData(), data.getHttpHeaders().toString());
            } else {
                PrincipalToken token = new PrincipalToken(words[1]);
                StringBuilder why = new StringBuilder();
                boolean valid = token.validate(Files.readString(Path.of(words[2])), 0, false, why);
                say(String.valueOf(valid), token.getDomain() + "." + token.getName(), why.toString());
            }
        }
        System.exit(0);
    }

    private static void say(String... words) {
        System.out.println("said\t" + String.join("\t", words));
    }
}

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;

/**
 * Kafka's AdminClient, which stays connected: creates each topic that standard input names.
 *
 * <p>Arguments: bootstrap servers, milliseconds that a request may take. Prints "created" or the
 * error for each line.
 */
public final class AdminSession {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0]);
        CreateTopicsOptions options = new CreateTopicsOptions();
        options.timeoutMs(Integer.parseInt(arguments[1]));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try (Admin admin = Admin.create(settings)) {
            for (String name = lines.readLine(); name != null; name = lines.readLine()) {
                NewTopic topic = new NewTopic(name, Optional.of(1), Optional.of((short) 2));
                try {
                    admin.createTopics(List.of(topic), options).all().get(90, TimeUnit.SECONDS);
                    System.out.println("created");
                } catch (ExecutionException error) {
                    System.out.println(error.getCause());
                }
                System.out.flush();
            }
        }
    }
}

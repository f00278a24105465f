// What `kafka-reassign-partitions --generate` proposes: the assignment algorithm of its release, for
// topics of so many partitions, without a cluster. Reads "broker rack" lines, an empty line, then
// "partitions replication_factor" lines; writes a line of replicas for each partition.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.admin.AdminUtils;
import org.apache.kafka.admin.BrokerMetadata;

public final class StockAssignment {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        List<BrokerMetadata> brokers = new ArrayList<>();
        for (String line = in.readLine(); !line.isEmpty(); line = in.readLine()) {
            String[] words = line.split(" ");
            brokers.add(new BrokerMetadata(Integer.parseInt(words[0]), Optional.of(words[1])));
        }
        PrintStream out = new PrintStream(new java.io.BufferedOutputStream(System.out, 1 << 20));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            Map<Integer, List<Integer>> assigned = AdminUtils.assignReplicasToBrokers(
                brokers, Integer.parseInt(words[0]), Integer.parseInt(words[1]));
            for (List<Integer> replicas : new TreeMap<>(assigned).values()) {
                out.println(replicas.stream().map(String::valueOf).collect(Collectors.joining(",")));
            }
        }
        out.flush();
    }
}

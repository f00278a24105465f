package kafkatests;

import com.yammer.metrics.core.Meter;
import java.util.ArrayList;
import java.util.Collection;
import kafka.network.SocketServer;
import kafka.server.KafkaBroker;
import org.mockito.Mockito;

/** What takes the place of the broker that is the controller, where tests look for one. */
public final class Standins {
    private Standins() {
    }

    /** A socket server whose port is that of the daemon's endpoint. */
    public static Object socketServer() {
        int port = Beside.endpointPort();
        return Mockito.mock(SocketServer.class, call -> {
            if (call.getMethod().getName().equals("boundPort")) {
                return port;
            }
            throw new UnsupportedOperationException("in-JVM controller: " + call.getMethod().getName());
        });
    }

    /** A meter that counts the unclean elections of the brokers and those in the daemon's journal. */
    public static Object uncleanElections(Object meter) {
        Meter ofBrokers = (Meter) meter;
        return Mockito.mock(Meter.class, call -> {
            if (call.getMethod().getName().equals("count")) {
                return ofBrokers.count() + Beside.uncleanElections();
            }
            throw new UnsupportedOperationException(call.getMethod().getName());
        });
    }

    /** The topic ids in ZooKeeper, as a Scala map. */
    public static Object topicIds(Object test, Object names) {
        try {
            Object client = method(test, "zkClient").invoke(test);
            Object wanted = names == null
                ? method(client, "getAllTopicsInCluster").invoke(client, false)
                : names.getClass().getMethod("toSet").invoke(names);
            Object ids = method(client, "getTopicIdsForTopics").invoke(client, wanted);
            return ids;
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Waits until each broker knows all others, whomever else it knows. */
    public static boolean areBrokersKnown(Object brokers) {
        Collection<KafkaBroker> all = new ArrayList<>();
        scala.collection.Iterator<?> each = ((scala.collection.Iterable<?>) brokers).iterator();
        while (each.hasNext()) {
            all.add((KafkaBroker) each.next());
        }
        for (int n = 0; n < 300; n++) {
            if (all.stream().allMatch(broker -> all.stream().allMatch(other ->
                    broker.metadataCache().hasAliveBroker(other.config().brokerId())))) {
                return true;
            }
            try {
                Thread.sleep(100);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
        throw new AssertionError("brokers do not know each other");
    }

    /** Whether the method that calls this one was called by the class. */
    public static boolean isCalledBy(String type) {
        return StackWalker.getInstance().walk(frames ->
            frames.skip(2).limit(1).anyMatch(frame -> frame.getClassName().startsWith(type)));
    }

    private static java.lang.reflect.Method method(Object target, String name) {
        for (java.lang.reflect.Method method : target.getClass().getMethods()) {
            if (method.getName().equals(name)) {
                return method;
            }
        }
        throw new IllegalStateException("no method " + name);
    }
}

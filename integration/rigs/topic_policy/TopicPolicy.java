import java.util.Map;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.AlterConfigPolicy;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/** A policy of brokers: no topic begins with "forbidden", and no setting has the value 1. */
public class TopicPolicy implements CreateTopicPolicy, AlterConfigPolicy {
    @Override
    public void configure(Map<String, ?> settings) {
    }

    @Override
    public void validate(CreateTopicPolicy.RequestMetadata request) {
        if (request.topic().startsWith("forbidden")) {
            throw new PolicyViolationException("This name is forbidden.");
        }
    }

    @Override
    public void validate(AlterConfigPolicy.RequestMetadata request) {
        if (request.configs().containsValue("1")) {
            throw new PolicyViolationException("This value is forbidden.");
        }
    }

    @Override
    public void close() {
    }
}

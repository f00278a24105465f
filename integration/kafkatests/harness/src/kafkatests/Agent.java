package kafkatests;

import static net.bytebuddy.matcher.ElementMatchers.isConstructor;
import static net.bytebuddy.matcher.ElementMatchers.nameStartsWith;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.not;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import java.lang.instrument.Instrumentation;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;

/**
 * Hooks into Kafka's test harness, so that the daemon lives exactly as long as the harness's
 * ZooKeeper, also where a test creates its brokers itself.
 *
 * <p>Where a test asks for the broker that is the controller and there is none, the stand-ins of
 * {@link Standins} answer. If a broker has the role, Kafka's own answer stays.
 */
public final class Agent {
    private Agent() {
    }

    public static void premain(String arguments, Instrumentation instrumentation) {
        new AgentBuilder.Default()
            .ignore(not(nameStartsWith("kafka.")))
            .type(named("kafka.zk.EmbeddedZookeeper"))
            .transform((builder, type, loader, module, domain) -> builder
                .visit(Advice.to(ZookeeperUp.class).on(isConstructor()))
                .visit(Advice.to(ZookeeperDown.class).on(named("shutdown").and(takesArguments(0)))))
            .type(named("kafka.server.KafkaServer"))
            .transform((builder, type, loader, module, domain) -> builder
                .visit(Advice.to(BrokerUp.class).on(named("startup").and(takesArguments(0)))))
            .type(named("kafka.zk.AdminZkClient"))
            .transform((builder, type, loader, module, domain) -> builder
                .visit(Advice.to(TopicWritten.class)
                    .on(named("createTopicWithAssignment").and(takesArguments(5)))))
            .type(named("kafka.utils.TestUtils$"))
            .transform((builder, type, loader, module, domain) -> builder
                .visit(Advice.to(BrokersKnown.class).on(named("waitUntilBrokerMetadataIsPropagated"))))
            .type(named("kafka.controller.KafkaController"))
            .transform((builder, type, loader, module, domain) -> builder
                .visit(Advice.to(IsActive.class).on(named("isActive").and(takesArguments(0)))))
            .type(named("kafka.integration.UncleanLeaderElectionTest"))
            .transform((builder, type, loader, module, domain) -> builder
                .visit(Advice.to(UncleanElections.class).on(named("getGauge"))))
            .type(named("kafka.controller.ControllerStats"))
            .transform((builder, type, loader, module, domain) -> builder
                .visit(Advice.to(UncleanElections.class).on(named("uncleanLeaderElectionRate"))))
            .type(named("kafka.server.BaseRequestTest"))
            .transform((builder, type, loader, module, domain) -> builder
                .visit(Advice.to(ControllerSocket.class).on(named("controllerSocketServer"))))
            .type(named("kafka.integration.KafkaServerTestHarness"))
            .transform((builder, type, loader, module, domain) -> builder
                .visit(Advice.to(TopicIdsOf.class).on(named("getTopicIds").and(takesArguments(1))))
                .visit(Advice.to(TopicIds.class).on(named("getTopicIds").and(takesArguments(0)))))
            .installOn(instrumentation);
    }

    public static final class ZookeeperUp {
        @Advice.OnMethodExit
        static void exit(@Advice.This Object zookeeper) {
            Beside.zookeeperUp(zookeeper);
        }
    }

    public static final class ZookeeperDown {
        @Advice.OnMethodEnter
        static void enter(@Advice.This Object zookeeper) {
            Beside.zookeeperDown(zookeeper);
        }
    }

    public static final class BrokerUp {
        @Advice.OnMethodExit
        static void exit(@Advice.This Object broker) {
            Beside.brokerUp(broker);
        }
    }

    public static final class TopicWritten {
        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(value = 4, readOnly = false) boolean usesTopicId) {
            usesTopicId = usesTopicId || Beside.writesTopicIds();
        }
    }

    /** To a test that only waits for any controller, the daemon is one. */
    public static final class IsActive {
        @Advice.OnMethodExit
        static void exit(@Advice.Return(readOnly = false) boolean answer) {
            if (!answer && Beside.isServing() && Standins.isCalledBy("kafka.admin.DeleteTopicTest")) {
                answer = true;
            }
        }
    }

    /** Where the test takes the brokers' meter: by its name, or from a controller before 3.7. */
    public static final class UncleanElections {
        @Advice.OnMethodExit
        static void exit(@Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object answer) {
            if (Beside.isServing() && Standins.isCalledBy("kafka.integration.UncleanLeaderElectionTest")) {
                answer = Standins.uncleanElections(answer);
            }
        }
    }

    /** The harness waits for exactly its brokers, but the daemon is listed among them. */
    public static final class BrokersKnown {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter(@Advice.Argument(0) Object brokers) {
            return Beside.isServing() && Standins.areBrokersKnown(brokers);
        }
    }

    public static final class ControllerSocket {
        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit(@Advice.Thrown(readOnly = false) Throwable thrown,
                         @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object answer) {
            if (thrown != null && Beside.isServing()) {
                thrown = null;
                answer = Standins.socketServer();
            }
        }
    }

    public static final class TopicIdsOf {
        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit(@Advice.This Object test, @Advice.Argument(0) Object names,
                         @Advice.Thrown(readOnly = false) Throwable thrown,
                         @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object answer) {
            if (thrown != null && Beside.isServing()) {
                thrown = null;
                answer = Standins.topicIds(test, names);
            }
        }
    }

    public static final class TopicIds {
        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit(@Advice.This Object test, @Advice.Thrown(readOnly = false) Throwable thrown,
                         @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object answer) {
            if (thrown != null && Beside.isServing()) {
                thrown = null;
                answer = Standins.topicIds(test, null);
            }
        }
    }
}

// Writes the golden files beside this source with Kafka's own message classes, and reads them back through
// the request classes a broker uses.
//
//   java -cp 'kafka-clients-3.9.1.jar:slf4j-api.jar' GenerateGolden.java <directory>

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.LeaderAndIsrRequestData;
import org.apache.kafka.common.message.LeaderAndIsrRequestData.LeaderAndIsrLiveLeader;
import org.apache.kafka.common.message.LeaderAndIsrRequestData.LeaderAndIsrPartitionState;
import org.apache.kafka.common.message.LeaderAndIsrRequestData.LeaderAndIsrTopicState;
import org.apache.kafka.common.message.LeaderAndIsrResponseData;
import org.apache.kafka.common.message.LeaderAndIsrResponseData.LeaderAndIsrPartitionError;
import org.apache.kafka.common.message.LeaderAndIsrResponseData.LeaderAndIsrTopicError;
import org.apache.kafka.common.message.StopReplicaRequestData;
import org.apache.kafka.common.message.StopReplicaRequestData.StopReplicaPartitionState;
import org.apache.kafka.common.message.StopReplicaRequestData.StopReplicaPartitionV0;
import org.apache.kafka.common.message.StopReplicaRequestData.StopReplicaTopicState;
import org.apache.kafka.common.message.StopReplicaRequestData.StopReplicaTopicV1;
import org.apache.kafka.common.message.StopReplicaResponseData;
import org.apache.kafka.common.message.StopReplicaResponseData.StopReplicaPartitionError;
import org.apache.kafka.common.message.UpdateMetadataRequestData;
import org.apache.kafka.common.message.UpdateMetadataRequestData.UpdateMetadataBroker;
import org.apache.kafka.common.message.UpdateMetadataRequestData.UpdateMetadataEndpoint;
import org.apache.kafka.common.message.UpdateMetadataRequestData.UpdateMetadataPartitionState;
import org.apache.kafka.common.message.UpdateMetadataRequestData.UpdateMetadataTopicState;
import org.apache.kafka.common.message.UpdateMetadataResponseData;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.requests.LeaderAndIsrRequest;
import org.apache.kafka.common.requests.StopReplicaRequest;
import org.apache.kafka.common.requests.UpdateMetadataRequest;

public class GenerateGolden {
    static final int CONTROLLER_ID = 1000000;
    static final int CONTROLLER_EPOCH = 17;
    static final long BROKER_EPOCH = 25769803801L;
    static final Uuid ORDERS_ID = Uuid.fromString("Tm9wZSBub3RoaW5nIGhlcg");
    static final Uuid PAYMENTS_ID = Uuid.fromString("c29tZXRoaW5nIGVsc2UgIQ");

    static Path directory;

    public static void main(String[] args) throws Exception {
        directory = Path.of(args[0]);
        for (short v = 1; v <= 7; v++) {
            ByteBuffer bytes = write("leader_and_isr_request", v, leaderAndIsr(v));
            System.out.println(LeaderAndIsrRequest.parse(bytes, v));
            write("leader_and_isr_response", v, leaderAndIsrAnswer(v));
        }
        for (short v = 0; v <= 4; v++) {
            ByteBuffer bytes = write("stop_replica_request", v, stopReplica(v));
            System.out.println(StopReplicaRequest.parse(bytes, v));
            write("stop_replica_response", v, stopReplicaAnswer());
        }
        for (short v = 4; v <= 8; v++) {
            ByteBuffer bytes = write("update_metadata_request", v, updateMetadata(v));
            System.out.println(UpdateMetadataRequest.parse(bytes, v));
            write("update_metadata_response", v, new UpdateMetadataResponseData().setErrorCode((short) 77));
        }
    }

    static ByteBuffer write(String name, short version, Message message) throws Exception {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        buffer.flip();
        String hex = HexFormat.of().formatHex(buffer.array());
        Files.writeString(directory.resolve(name + "_v" + version + ".hex"), hex + "\n");
        return buffer;
    }

    static LeaderAndIsrPartitionState state(String topic, int partition, boolean adding, short version) {
        LeaderAndIsrPartitionState state = new LeaderAndIsrPartitionState()
            .setPartitionIndex(partition)
            .setControllerEpoch(CONTROLLER_EPOCH)
            .setLeader(1)
            .setLeaderEpoch(5 + partition)
            .setIsr(List.of(1, 2))
            .setPartitionEpoch(41)
            .setReplicas(adding ? List.of(1, 2, 3) : List.of(1, 2));
        if (version < 2) state.setTopicName(topic);
        if (version >= 3 && adding) state.setAddingReplicas(List.of(3)).setRemovingReplicas(List.of(2));
        return state.setIsNew(adding);
    }

    static LeaderAndIsrRequestData leaderAndIsr(short version) {
        LeaderAndIsrRequestData data = new LeaderAndIsrRequestData()
            .setControllerId(CONTROLLER_ID)
            .setControllerEpoch(CONTROLLER_EPOCH)
            .setLiveLeaders(List.of(
                new LeaderAndIsrLiveLeader().setBrokerId(1).setHostName("broker-1.example").setPort(9092)));
        LeaderAndIsrPartitionState first = state("orders", 0, true, version);
        LeaderAndIsrPartitionState second = state("orders", 7, false, version);
        LeaderAndIsrPartitionState third = state("payments", 2, false, version);
        if (version >= 2) {
            data.setBrokerEpoch(BROKER_EPOCH);
            data.setTopicStates(List.of(
                new LeaderAndIsrTopicState().setTopicName("orders").setTopicId(ORDERS_ID)
                    .setPartitionStates(List.of(first, second)),
                new LeaderAndIsrTopicState().setTopicName("payments").setTopicId(PAYMENTS_ID)
                    .setPartitionStates(List.of(third))));
        } else {
            data.setUngroupedPartitionStates(List.of(first, second, third));
        }
        return data;
    }

    static LeaderAndIsrPartitionError error(String topic, int partition, int code, short version) {
        LeaderAndIsrPartitionError error = new LeaderAndIsrPartitionError()
            .setPartitionIndex(partition).setErrorCode((short) code);
        return version < 5 ? error.setTopicName(topic) : error;
    }

    static LeaderAndIsrResponseData leaderAndIsrAnswer(short version) {
        LeaderAndIsrResponseData data = new LeaderAndIsrResponseData();
        List<LeaderAndIsrPartitionError> orders =
            List.of(error("orders", 0, 0, version), error("orders", 7, 56, version));
        LeaderAndIsrPartitionError payments = error("payments", 2, 11, version);
        if (version < 5) return data.setPartitionErrors(List.of(orders.get(0), orders.get(1), payments));
        LeaderAndIsrResponseData.LeaderAndIsrTopicErrorCollection topics =
            new LeaderAndIsrResponseData.LeaderAndIsrTopicErrorCollection();
        topics.add(new LeaderAndIsrTopicError().setTopicId(ORDERS_ID).setPartitionErrors(orders));
        topics.add(new LeaderAndIsrTopicError().setTopicId(PAYMENTS_ID).setPartitionErrors(List.of(payments)));
        return data.setTopics(topics);
    }

    static StopReplicaRequestData stopReplica(short version) {
        StopReplicaRequestData data = new StopReplicaRequestData()
            .setControllerId(CONTROLLER_ID).setControllerEpoch(CONTROLLER_EPOCH);
        if (version >= 1) data.setBrokerEpoch(BROKER_EPOCH);
        if (version < 3) data.setDeletePartitions(true);
        if (version == 0) {
            data.setUngroupedPartitions(List.of(
                new StopReplicaPartitionV0().setTopicName("orders").setPartitionIndex(0),
                new StopReplicaPartitionV0().setTopicName("orders").setPartitionIndex(7),
                new StopReplicaPartitionV0().setTopicName("payments").setPartitionIndex(2)));
        } else if (version < 3) {
            data.setTopics(List.of(
                new StopReplicaTopicV1().setName("orders").setPartitionIndexes(List.of(0, 7)),
                new StopReplicaTopicV1().setName("payments").setPartitionIndexes(List.of(2))));
        } else {
            data.setTopicStates(List.of(
                new StopReplicaTopicState().setTopicName("orders")
                    .setPartitionStates(List.of(stopped(0, 5), stopped(7, 12))),
                new StopReplicaTopicState().setTopicName("payments").setPartitionStates(List.of(stopped(2, 7)))));
        }
        return data;
    }

    static StopReplicaPartitionState stopped(int partition, int leaderEpoch) {
        return new StopReplicaPartitionState()
            .setPartitionIndex(partition).setLeaderEpoch(leaderEpoch).setDeletePartition(true);
    }

    static StopReplicaResponseData stopReplicaAnswer() {
        return new StopReplicaResponseData().setPartitionErrors(List.of(
            new StopReplicaPartitionError().setTopicName("orders").setPartitionIndex(0).setErrorCode((short) 0),
            new StopReplicaPartitionError().setTopicName("orders").setPartitionIndex(7).setErrorCode((short) 74),
            new StopReplicaPartitionError().setTopicName("payments").setPartitionIndex(2).setErrorCode((short) 0)));
    }

    static UpdateMetadataPartitionState seen(String topic, int partition, short version) {
        UpdateMetadataPartitionState state = new UpdateMetadataPartitionState()
            .setPartitionIndex(partition)
            .setControllerEpoch(CONTROLLER_EPOCH)
            .setLeader(1)
            .setLeaderEpoch(5 + partition)
            .setIsr(List.of(1, 2))
            .setZkVersion(41)
            .setReplicas(List.of(1, 2, 3))
            .setOfflineReplicas(List.of(3));
        return version < 5 ? state.setTopicName(topic) : state;
    }

    static UpdateMetadataRequestData updateMetadata(short version) {
        UpdateMetadataRequestData data = new UpdateMetadataRequestData()
            .setControllerId(CONTROLLER_ID)
            .setControllerEpoch(CONTROLLER_EPOCH)
            .setLiveBrokers(List.of(
                new UpdateMetadataBroker().setId(1).setRack("rack-a").setEndpoints(List.of(
                    endpoint("broker-1.example", 9092, "INTERNAL", 0),
                    endpoint("broker-1.example", 9093, "EXTERNAL", 3))),
                new UpdateMetadataBroker().setId(2).setRack(null).setEndpoints(List.of(
                    endpoint("broker-2.example", 9092, "INTERNAL", 0)))));
        if (version < 5) {
            return data.setUngroupedPartitionStates(List.of(
                seen("orders", 0, version), seen("orders", 7, version), seen("payments", 2, version)));
        }
        return data.setBrokerEpoch(BROKER_EPOCH).setTopicStates(List.of(
            new UpdateMetadataTopicState().setTopicName("orders").setTopicId(ORDERS_ID)
                .setPartitionStates(List.of(seen("orders", 0, version), seen("orders", 7, version))),
            new UpdateMetadataTopicState().setTopicName("payments").setTopicId(PAYMENTS_ID)
                .setPartitionStates(List.of(seen("payments", 2, version)))));
    }

    static UpdateMetadataEndpoint endpoint(String host, int port, String listener, int protocol) {
        return new UpdateMetadataEndpoint().setHost(host).setPort(port).setListener(listener)
            .setSecurityProtocol((short) protocol);
    }
}

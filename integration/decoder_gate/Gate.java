import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.clients.NetworkClient;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.RequestHeader;

/**
 * Reads and writes frames with the client library of one Kafka release, 2.7 to 3.9.
 *
 * Commands, one per line, and one line of output for each: "ok" with the result, or "failed" with
 * the exception.
 *
 *   versions KEY                                   lowest and highest version; "none" if unknown
 *   response KEY VERSION CORRELATION FRAME         the body as JSON, read as a broker reads it
 *   request FRAME                                  the same for a request that a broker receives
 *   write KEY VERSION CORRELATION CLIENT JSON      the frame that this release writes
 *
 * Frames are hexadecimal and have no length in front of them. What is read must end with the frame
 * and give the same bytes when it is written again.
 */
public class Gate {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String answer;
            try {
                answer = "ok " + carryOut(line.split(" ", 6));
            } catch (Throwable error) {
                Throwable cause = error instanceof InvocationTargetException ? error.getCause() : error;
                answer = "failed " + cause.toString().replace('\n', ' ');
            }
            System.out.println(answer);
        }
    }

    static String carryOut(String[] words) throws Exception {
        switch (words[0]) {
            case "versions":
                return versions(Integer.parseInt(words[1]));
            case "response":
                return response(number(words[1]), number(words[2]), Integer.parseInt(words[3]), bytes(words[4]));
            case "request":
                return request(bytes(words[1]));
            case "write":
                return write(number(words[1]), number(words[2]), Integer.parseInt(words[3]), words[4], words[5]);
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    static String versions(int key) {
        if (!ApiKeys.hasId(key)) return "none";
        ApiKeys api = ApiKeys.forId(key);
        return api.oldestVersion() + " " + api.latestVersion();
    }

    static String response(short key, short version, int correlation, ByteBuffer frame) throws Exception {
        RequestHeader header = new RequestHeader(ApiKeys.forId(key), version, "1", correlation);
        Object response = NetworkClient.parseResponse(frame, header);
        check(frame.remaining() == 0, frame.remaining() + " bytes are left");
        ApiMessage data = (ApiMessage) dataOf(response);
        // A refused ApiVersions has a body of version 0, whatever was asked (KIP-511).
        boolean refused = key == ApiKeys.API_VERSIONS.id && frame.getShort(4) != 0;
        short written = refused ? 0 : version;
        short headerVersion = ApiKeys.forId(key).responseHeaderVersion(version);
        frame.position(headerVersion == 0 ? 4 : 5);
        check(body(data, written).equals(frame), "written again, the body differs");
        return json(data, written).toString();
    }

    static String request(ByteBuffer frame) throws Exception {
        RequestHeader header = RequestHeader.parse(frame);
        int bodyAt = frame.position();
        parse(header, frame);
        check(frame.remaining() == 0, frame.remaining() + " bytes are left");
        frame.position(bodyAt);
        short version = header.apiVersion();
        ApiMessage data = ApiMessageType.fromApiKey(header.apiKey().id).newRequest();
        data.read(new ByteBufferAccessor(frame.duplicate()), version);
        check(body(data, version).equals(frame), "written again, the body differs");
        return json(data, version).toString();
    }

    static String write(short key, short version, int correlation, String client, String text) throws Exception {
        ApiMessage data = ApiMessageType.fromApiKey(key).newRequest();
        Method read = converterOf(data).getMethod("read", JsonNode.class, short.class);
        ObjectNode fields = (ObjectNode) JSON.readTree(text);
        JsonNode secret = fields.get("authBytes");
        if (secret != null) fields.put("authBytes", secret.binaryValue()); // 2.7 takes no text for bytes
        ApiMessage request = (ApiMessage) read.invoke(null, fields, version);
        short headerVersion = ApiKeys.forId(key).requestHeaderVersion(version);
        RequestHeaderData header = new RequestHeaderData()
            .setRequestApiKey(key)
            .setRequestApiVersion(version)
            .setCorrelationId(correlation)
            .setClientId(client);
        ByteBuffer head = body(header, headerVersion);
        ByteBuffer tail = body(request, version);
        ByteBuffer frame = ByteBuffer.allocate(head.remaining() + tail.remaining()).put(head).put(tail);
        return HexFormat.of().formatHex(frame.array());
    }

    /** Parse a request as a broker does: 2.7 parses a Struct, the later ones a buffer. */
    static void parse(RequestHeader header, ByteBuffer frame) throws Exception {
        for (Method method : AbstractRequest.class.getMethods()) {
            if (!method.getName().equals("parseRequest")) continue;
            if (method.getParameterTypes()[2] == ByteBuffer.class) {
                method.invoke(null, header.apiKey(), header.apiVersion(), frame);
            } else {
                Method struct = ApiKeys.class.getMethod("parseRequest", short.class, ByteBuffer.class);
                Object parsed = struct.invoke(header.apiKey(), header.apiVersion(), frame);
                method.invoke(null, header.apiKey(), header.apiVersion(), parsed);
            }
            return;
        }
        throw new NoSuchMethodException("parseRequest");
    }

    static Object dataOf(Object response) throws Exception {
        try {
            Field data = response.getClass().getDeclaredField("data");
            data.setAccessible(true);
            return data.get(response);
        } catch (NoSuchFieldException later) {
            return response.getClass().getMethod("data").invoke(response);
        }
    }

    static JsonNode json(ApiMessage data, short version) throws Exception {
        Method write = converterOf(data).getMethod("write", data.getClass(), short.class);
        return (JsonNode) write.invoke(null, data, version);
    }

    static Class<?> converterOf(ApiMessage data) throws ClassNotFoundException {
        return Class.forName(data.getClass().getName() + "JsonConverter");
    }

    static ByteBuffer body(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        buffer.flip();
        return buffer;
    }

    static void check(boolean holds, String otherwise) {
        if (!holds) throw new IllegalStateException(otherwise);
    }

    static short number(String word) {
        return Short.parseShort(word);
    }

    static ByteBuffer bytes(String word) {
        return ByteBuffer.wrap(HexFormat.of().parseHex(word));
    }
}

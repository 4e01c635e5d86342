import com.google.gson.Gson;
import com.google.gson.JsonObject;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.Grpc;
import io.grpc.HandlerRegistry;
import io.grpc.InsecureChannelCredentials;
import io.grpc.InsecureServerCredentials;
import io.grpc.ChannelCredentials;
import io.grpc.ClientInterceptors;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerMethodDefinition;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.TlsChannelCredentials;
import io.grpc.internal.GrpcUtil;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.ServerCalls;
import io.grpc.xds.XdsChannelCredentials;
import io.grpc.xds.XdsServerBuilder;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;

/**
 * A gRPC client without a proxy, and a server that is told by xDS how to listen: Main [server HOST:PORT]
 *
 * <p>GRPC_XDS_BOOTSTRAP names the file that says where the rules are. It is driven by lines of JSON, as
 * tests/clients/xds/grpc_client.py is:
 *
 * <pre>
 * {"op": "call", "target": T, "times": 20, "parallel": 1, "method": "/shop.Pay/Charge", "metadata": {"k": "v"}, "timeout_s": 5}
 * {"op": "flow", "name": N, "target": T, "pause_s": 0.005, …}, {"op": "seen", "name": N}, {"op": "stop", "name": N}
 * {"op": "forget", "target": T}     closes the channel
 * </pre>
 *
 * <p>With "ca", a file, a call goes by TLS; with "by_xds", true, by what xDS says of it, and otherwise by TLS.
 * Messages are empty, answers are the bytes that a server names itself by.
 */
public final class Main {
    private static final Gson GSON = new Gson();
    private static final MethodDescriptor.Marshaller<byte[]> RAW = new MethodDescriptor.Marshaller<>() {
        @Override
        public InputStream stream(byte[] bytes) {
            return new ByteArrayInputStream(bytes);
        }

        @Override
        public byte[] parse(InputStream stream) {
            try {
                return stream.readAllBytes();
            } catch (IOException error) {
                throw Status.INTERNAL.withCause(error).asRuntimeException();
            }
        }
    };

    /** One line that is asked. */
    private static final class Question {
        String op;
        String name;
        String target;
        String method = "/shop.Pay/Charge";
        String ca;
        boolean by_xds;
        int times = 1;
        int parallel = 1;
        double timeout_s = 5;
        double pause_s = 0.005;
        Map<String, String> metadata = new HashMap<>();
    }

    /** Results of calls: how many each server answered, and how many failed how. */
    private static final class Tally {
        private final Map<String, Integer> answers = new TreeMap<>();
        private final Map<String, Integer> errors = new TreeMap<>();
        private final Map<String, String> texts = new TreeMap<>();

        synchronized void answered(String by) {
            answers.merge(by, 1, Integer::sum);
        }

        synchronized void failed(Status status) {
            errors.merge(status.getCode().name(), 1, Integer::sum);
            texts.put(status.getCode().name(), String.valueOf(status.getDescription()));
        }

        synchronized String told() {
            return GSON.toJson(this);
        }
    }

    /** Calls that go on until they are stopped. */
    private static final class Flow {
        final Tally tally = new Tally();
        volatile boolean ends;
        List<Thread> running;
    }

    private final Map<String, ManagedChannel> channels = new ConcurrentHashMap<>();
    private final Map<String, Flow> flows = new HashMap<>();

    private static MethodDescriptor<byte[], byte[]> method(String path) {
        return MethodDescriptor.<byte[], byte[]>newBuilder(RAW, RAW).setType(MethodDescriptor.MethodType.UNARY)
            .setFullMethodName(path).build();
    }

    private ManagedChannel channel(Question asked) {
        return channels.computeIfAbsent(asked.target, target -> {
            try {
                ChannelCredentials secure = asked.ca == null
                    ? InsecureChannelCredentials.create()
                    : TlsChannelCredentials.newBuilder().trustManager(new File(asked.ca)).build();
                return Grpc.newChannelBuilder(target, asked.by_xds ? XdsChannelCredentials.create(secure) : secure).build();
            } catch (IOException error) {
                throw new IllegalArgumentException(error);
            }
        });
    }

    private void once(Tally tally, Question asked) {
        Metadata headers = new Metadata();
        asked.metadata.forEach((key, value) -> headers.put(Metadata.Key.of(key, Metadata.ASCII_STRING_MARSHALLER), value));
        Channel channel = ClientInterceptors.intercept(
            channel(asked), MetadataUtils.newAttachHeadersInterceptor(headers));
        CallOptions options = CallOptions.DEFAULT.withDeadlineAfter((long) (asked.timeout_s * 1000), TimeUnit.MILLISECONDS);
        try {
            byte[] answer = ClientCalls.blockingUnaryCall(
                channel, method(asked.method.substring(1)), options, new byte[0]);
            tally.answered(new String(answer, StandardCharsets.UTF_8));
        } catch (StatusRuntimeException error) {
            tally.failed(error.getStatus());
        }
    }

    /** Starts so many threads; each ends when the work says so. */
    private static List<Thread> together(int count, BooleanSupplier work) {
        List<Thread> running = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            Thread one = new Thread(() -> {
                while (work.getAsBoolean()) {
                    Thread.onSpinWait();
                }
            });
            one.setDaemon(true);
            one.start();
            running.add(one);
        }
        return running;
    }

    private static void join(List<Thread> running) throws InterruptedException {
        for (Thread one : running) {
            one.join();
        }
    }

    private String call(Question asked) throws InterruptedException {
        Tally tally = new Tally();
        AtomicInteger left = new AtomicInteger(asked.times);
        join(together(asked.parallel, () -> {
            if (left.getAndDecrement() <= 0) {
                return false;
            }
            once(tally, asked);
            return true;
        }));
        return tally.told();
    }

    private String start(Question asked) {
        Flow flow = new Flow();
        flow.running = together(asked.parallel, () -> {
            try {
                Thread.sleep((long) (asked.pause_s * 1000));
            } catch (InterruptedException error) {
                return false;
            }
            once(flow.tally, asked);
            return !flow.ends;
        });
        flows.put(asked.name, flow);
        return "{}";
    }

    private String stop(Question asked) throws InterruptedException {
        Flow flow = flows.remove(asked.name);
        flow.ends = true;
        join(flow.running);
        return flow.tally.told();
    }

    private String forget(Question asked) {
        channels.remove(asked.target).shutdownNow();
        return "{}";
    }

    private String answer(Question asked) throws InterruptedException {
        switch (asked.op) {
            case "call": return call(asked);
            case "flow": return start(asked);
            case "seen": return flows.get(asked.name).tally.told();
            case "stop": return stop(asked);
            case "forget": return forget(asked);
            default: throw new IllegalArgumentException("no operation " + asked.op);
        }
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static String line(String key, Object value) {
        JsonObject made = new JsonObject();
        made.addProperty(key, String.valueOf(value));
        return GSON.toJson(made);
    }

    /** Answers every method with its address, once xDS has said how to listen. */
    private static void serve(String address) throws IOException {
        int colon = address.lastIndexOf(':');
        InetSocketAddress at = new InetSocketAddress(
            address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
        HandlerRegistry every = new HandlerRegistry() {
            @Override
            public ServerMethodDefinition<?, ?> lookupMethod(String name, String authority) {
                return ServerMethodDefinition.create(method(name), ServerCalls.asyncUnaryCall((request, answers) -> {
                    answers.onNext(address.getBytes(StandardCharsets.UTF_8));
                    answers.onCompleted();
                }));
            }
        };
        XdsServerBuilder builder = XdsServerBuilder.forAddress(at, InsecureServerCredentials.create());
        builder.xdsServingStatusListener(new XdsServerBuilder.XdsServingStatusListener() {
            @Override
            public void onServing() {
                say(line("mode", "SERVING"));
            }

            @Override
            public void onNotServing(Throwable error) {
                say(line("fault", error));
            }
        });
        Server server = builder.fallbackHandlerRegistry(every).build();
        Thread starting = new Thread(() -> {
            try {
                server.start();
            } catch (IOException error) {
                say(line("failed", error));
            }
        });
        starting.setDaemon(true);
        starting.start();
    }

    public static void main(String[] arguments) throws IOException, InterruptedException {
        String version = GrpcUtil.getGrpcBuildVersion().getImplementationVersion();
        say("{\"ready\":true,\"version\":\"" + version + "\"}");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        if (arguments.length == 2 && arguments[0].equals("server")) {
            serve(arguments[1]);
            lines.readLine();
            System.exit(0);
        }
        Main driven = new Main();
        for (String asked = lines.readLine(); asked != null; asked = lines.readLine()) {
            try {
                say(driven.answer(GSON.fromJson(asked, Question.class)));
            } catch (RuntimeException error) {
                say(line("failed", error));
            }
        }
        System.exit(0);
    }
}

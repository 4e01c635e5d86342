// A program on Polaris' SDK for Java, with the lines of ../../go/polaris/main.go: does what each line of stdin asks for, and
// prints the result as a line of JSON.
//
//     Main NAMING CONFIG NAMESPACE DIRECTORY

import com.tencent.polaris.api.core.ConsumerAPI;
import com.tencent.polaris.api.core.ProviderAPI;
import com.tencent.polaris.api.plugin.circuitbreaker.ResourceStat;
import com.tencent.polaris.api.plugin.circuitbreaker.entity.ServiceResource;
import com.tencent.polaris.api.pojo.Instance;
import com.tencent.polaris.api.pojo.RetStatus;
import com.tencent.polaris.api.pojo.RouteArgument;
import com.tencent.polaris.api.pojo.ServiceInfo;
import com.tencent.polaris.api.pojo.ServiceKey;
import com.tencent.polaris.api.rpc.GetAllInstancesRequest;
import com.tencent.polaris.api.rpc.InstanceDeregisterRequest;
import com.tencent.polaris.api.rpc.InstanceRegisterRequest;
import com.tencent.polaris.api.rpc.InstancesResponse;
import com.tencent.polaris.api.rpc.WatchServiceRequest;
import com.tencent.polaris.circuitbreak.api.CircuitBreakAPI;
import com.tencent.polaris.circuitbreak.factory.CircuitBreakAPIFactory;
import com.tencent.polaris.client.api.SDKContext;
import com.tencent.polaris.configuration.api.core.ConfigFile;
import com.tencent.polaris.configuration.api.core.ConfigFilePublishService;
import com.tencent.polaris.configuration.api.core.ConfigFileService;
import com.tencent.polaris.configuration.api.rpc.ConfigPublishRequest;
import com.tencent.polaris.configuration.factory.ConfigFileServiceFactory;
import com.tencent.polaris.configuration.factory.ConfigFileServicePublishFactory;
import com.tencent.polaris.factory.ConfigAPIFactory;
import com.tencent.polaris.factory.api.DiscoveryAPIFactory;
import com.tencent.polaris.factory.api.RouterAPIFactory;
import com.tencent.polaris.ratelimit.api.core.LimitAPI;
import com.tencent.polaris.ratelimit.api.rpc.QuotaRequest;
import com.tencent.polaris.ratelimit.api.rpc.QuotaResultCode;
import com.tencent.polaris.ratelimit.factory.LimitAPIFactory;
import com.tencent.polaris.router.api.core.RouterAPI;
import com.tencent.polaris.router.api.rpc.ProcessRoutersRequest;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

public final class Main {
    private static final String SETTINGS = String.join("\n",
            "global:",
            "  serverConnector: { addresses: ['%1$s'], token: '%3$s' }",
            "  statReporter:",
            "    enable: false",
            "    plugin: { prometheus: { namespace: Polaris, service: polaris.pushgateway } }",
            "consumer:",
            "  localCache: { persistEnable: false }",
            "config:",
            "  serverConnector: { addresses: ['%2$s'], token: '%3$s', persistEnable: false }",
            "");

    private final String namespace;
    private final ConsumerAPI consumer;
    private final ProviderAPI provider;
    private final RouterAPI router;
    private final LimitAPI limit;
    private final CircuitBreakAPI breaker;
    private final ConfigFileService files;
    private final ConfigFilePublishService publishing;
    private final Set<String> read = new HashSet<>();

    private Main(SDKContext context, String namespace) {
        this.namespace = namespace;
        consumer = DiscoveryAPIFactory.createConsumerAPIByContext(context);
        provider = DiscoveryAPIFactory.createProviderAPIByContext(context);
        router = RouterAPIFactory.createRouterAPIByContext(context);
        limit = LimitAPIFactory.createLimitAPIByContext(context);
        breaker = CircuitBreakAPIFactory.createCircuitBreakAPIByContext(context);
        files = ConfigFileServiceFactory.createConfigFileService(context);
        publishing = ConfigFileServicePublishFactory.createConfigFilePublishService(context);
    }

    public static void main(String[] arguments) throws Exception {
        String token = System.getenv().getOrDefault("THUBAN_TOKEN", "");
        byte[] settings = String.format(SETTINGS, arguments[0], arguments[1], token).getBytes(StandardCharsets.UTF_8);
        SDKContext context =
                SDKContext.initContextByConfig(ConfigAPIFactory.loadConfig(new ByteArrayInputStream(settings)));
        Main client = new Main(context, arguments[2]);
        say("\"event\": \"ready\"");
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            String[] words = line.trim().split(" ");
            String answer;
            try {
                answer = client.act(words);
            } catch (Exception error) {
                answer = "\"error\": " + quoted(String.valueOf(error));
            }
            say("\"asked\": " + quoted(words[0]) + (answer.isEmpty() ? "" : ", " + answer));
        }
        // Its threads would go on.
        System.exit(0);
    }

    private static synchronized void say(String fields) {
        System.out.println("{" + fields + "}");
        System.out.flush();
    }

    private static String quoted(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder quoted = new StringBuilder("\"");
        for (char one : text.toCharArray()) {
            quoted.append(one < ' ' || one == '"' || one == '\\' ? String.format("\\u%04x", (int) one) : one);
        }
        return quoted.append('"').toString();
    }

    private static Map<String, String> pairs(String[] words, int from) {
        Map<String, String> pairs = new HashMap<>();
        for (int at = from; at < words.length; at++) {
            String[] pair = words[at].split("=", 2);
            pairs.put(pair[0], pair[1]);
        }
        return pairs;
    }

    private static String hosts(Collection<Instance> instances) {
        Set<String> hosts = new TreeSet<>();
        for (Instance one : instances) {
            hosts.add(quoted(one.getHost() + ":" + one.getPort()));
        }
        return "\"instances\": [" + String.join(", ", hosts) + "]";
    }

    private InstancesResponse all(String service) {
        GetAllInstancesRequest request = new GetAllInstancesRequest();
        request.setNamespace(namespace);
        request.setService(service);
        return consumer.getAllInstances(request);
    }

    private String act(String[] words) {
        switch (words[0]) {
            case "register": {
                InstanceRegisterRequest request = new InstanceRegisterRequest();
                request.setNamespace(namespace);
                request.setService(words[1]);
                request.setHost(words[2]);
                request.setPort(Integer.parseInt(words[3]));
                request.setTtl(Integer.parseInt(words[4]));
                request.setMetadata(pairs(words, 5));
                return "\"id\": " + quoted(provider.registerInstance(request).getInstanceId());
            }
            case "deregister": {
                InstanceDeregisterRequest request = new InstanceDeregisterRequest();
                request.setNamespace(namespace);
                request.setService(words[1]);
                request.setHost(words[2]);
                request.setPort(Integer.parseInt(words[3]));
                provider.deRegister(request);
                return "";
            }
            case "instances":
                return hosts(List.of(all(words[1]).getInstances()));
            case "watch": {
                WatchServiceRequest request = new WatchServiceRequest();
                request.setNamespace(namespace);
                request.setService(words[1]);
                request.setListeners(new ArrayList<>(List.of(
                        event -> say("\"event\": \"instances\", \"service\": " + quoted(words[1])))));
                consumer.watchService(request);
                return "";
            }
            case "route": {
                ProcessRoutersRequest request = new ProcessRoutersRequest();
                request.setDstInstances(all(words[1]).toServiceInstances());
                ServiceInfo source = new ServiceInfo();
                source.setNamespace(namespace);
                source.setService(words[2]);
                Map<String, String> labels = new HashMap<>();
                pairs(words, 3).forEach((key, value) -> RouteArgument.buildHeader(key, value).toLabel(labels));
                source.setMetadata(labels);
                request.setSourceService(source);
                return hosts(router.processRouters(request).getServiceInstances().getInstances());
            }
            case "quota": {
                QuotaRequest request = new QuotaRequest();
                request.setNamespace(namespace);
                request.setService(words[1]);
                request.setMethod(words[2]);
                request.setCount(1);
                return "\"passes\": " + (limit.getQuota(request).getCode() == QuotaResultCode.QuotaResultOk);
            }
            case "call": {
                ServiceResource resource =
                        new ServiceResource(new ServiceKey(namespace, words[1]), new ServiceKey(namespace, "web"));
                if (!breaker.check(resource).isPass()) {
                    return "\"passes\": false";
                }
                boolean succeeds = words[3].equals("ok");
                RetStatus status = succeeds ? RetStatus.RetSuccess : RetStatus.RetFail;
                breaker.report(new ResourceStat(resource, succeeds ? 200 : 500, 1, status));
                return "\"passes\": true";
            }
            case "config": {
                ConfigFile file = files.getConfigFile(namespace, words[1], words[2]);
                String name = words[1] + "/" + words[2];
                if (read.add(name)) {
                    file.addChangeListener(event -> say("\"event\": \"config\", \"file\": " + quoted(name)
                            + ", \"content\": " + quoted(event.getNewValue())));
                }
                return "\"content\": " + quoted(file.getContent());
            }
            case "publish": {
                ConfigPublishRequest request = new ConfigPublishRequest();
                request.setNamespace(namespace);
                request.setGroup(words[1]);
                request.setFilename(words[2]);
                request.setContent(words[3]);
                int code = publishing.upsertAndPublish(request).getCode();
                return code == 200000 ? "" : "\"error\": \"" + code + "\"";
            }
            default:
                throw new IllegalArgumentException("no such act: " + words[0]);
        }
    }
}

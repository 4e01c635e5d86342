// Apollo's client for Java against one address; prints what it holds, a line of JSON for each state.
//
//     Main URL APP CLUSTER NAMESPACE CACHE [SECRET]
//
// As tests/clients/watch.py: the secret is that of an access key. The environment may have THUBAN_META=1 (the address is
// asked for nodes, as apollo.meta has it; else it is the only one), THUBAN_CA (a file with the authority to trust) and
// THUBAN_LABEL (apollo.label). Pairs come in the order in which the client has them.

import com.ctrip.framework.apollo.Config;
import com.ctrip.framework.apollo.ConfigFile;
import com.ctrip.framework.apollo.ConfigService;
import com.ctrip.framework.apollo.core.enums.ConfigFileFormat;
import java.util.LinkedHashMap;
import java.util.Map;

public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws Exception {
        String url = arguments[0], namespace = arguments[3];
        System.setProperty("app.id", arguments[1]);
        System.setProperty("apollo.cluster", arguments[2]);
        for (String name : new String[] {"apollo.cache-dir", "apollo.cacheDir"}) {
            System.setProperty(name, arguments[4]);
        }
        if (arguments.length > 5) {
            // Two names, of older and newer clients.
            System.setProperty("apollo.accesskey.secret", arguments[5]);
            System.setProperty("apollo.access-key.secret", arguments[5]);
        }
        System.setProperty("apollo.meta", url);
        if (System.getenv("THUBAN_META") == null) {
            System.setProperty("apollo.config-service", url);
            System.setProperty("apollo.configService", url);
        }
        if (System.getenv("THUBAN_LABEL") != null) {
            System.setProperty("apollo.label", System.getenv("THUBAN_LABEL"));
        }
        System.setProperty("apollo.property.order.enable", "true");
        if (System.getenv("THUBAN_CA") != null) {
            Trust.only(System.getenv("THUBAN_CA"));
        }
        ConfigFileFormat format = formatOf(namespace);
        if (format == null) {
            Config config = ConfigService.getConfig(namespace);
            config.addChangeListener(change -> tell(pairs(config)));
            tell(pairs(config));
        } else {
            String name = namespace.substring(0, namespace.lastIndexOf('.'));
            ConfigFile file = ConfigService.getConfigFile(name, format);
            file.addChangeListener(change -> tell(content(file)));
            tell(content(file));
        }
        Thread.currentThread().join();
    }

    /** The format of a namespace that is not properties. */
    private static ConfigFileFormat formatOf(String namespace) {
        String suffix = namespace.substring(namespace.lastIndexOf('.') + 1);
        if (!namespace.contains(".") || !ConfigFileFormat.isValidFormat(suffix)) {
            return null;
        }
        ConfigFileFormat format = ConfigFileFormat.fromString(suffix);
        return format == ConfigFileFormat.Properties ? null : format;
    }

    private static Map<String, String> pairs(Config config) {
        Map<String, String> pairs = new LinkedHashMap<>();
        for (String key : config.getPropertyNames()) {
            // The client counts what is in the system's properties to every namespace.
            pairs.put(key, config.getProperty(key, ""));
        }
        return pairs;
    }

    private static Map<String, String> content(ConfigFile file) {
        Map<String, String> pairs = new LinkedHashMap<>();
        if (file.hasContent()) {
            pairs.put("content", file.getContent());
        }
        return pairs;
    }

    private static synchronized void tell(Map<String, String> pairs) {
        StringBuilder line = new StringBuilder("{\"values\":{");
        String comma = "";
        for (Map.Entry<String, String> pair : pairs.entrySet()) {
            line.append(comma).append(quoted(pair.getKey())).append(':').append(quoted(pair.getValue()));
            comma = ",";
        }
        line.append("},\"keys\":[");
        comma = "";
        for (String key : pairs.keySet()) {
            line.append(comma).append(quoted(key));
            comma = ",";
        }
        System.out.println(line.append("]}"));
        System.out.flush();
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char letter : text.toCharArray()) {
            if (letter == '"' || letter == '\\') {
                quoted.append('\\').append(letter);
            } else if (letter < ' ' || letter > '~') {
                quoted.append(String.format("\\u%04x", (int) letter));
            } else {
                quoted.append(letter);
            }
        }
        return quoted.append('"').toString();
    }
}

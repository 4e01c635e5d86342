// A Spring Boot application whose properties come of Apollo's client; prints the one that is called `number`, a line of JSON
// for each value that Spring gives it.
//
//     Main URL APP CLUSTER NAMESPACE CACHE [SECRET]
//
// As tests/clients/watch.py; the environment as for tests/clients/java/apollo.

import com.ctrip.framework.apollo.spring.annotation.EnableApolloConfig;
import java.util.HashMap;
import java.util.Map;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Configuration;

@Configuration
@EnableAutoConfiguration
@EnableApolloConfig
public class Main {
    /** Called by Spring at the start, and by Apollo's client whenever the property has another value. */
    @Value("${number:}")
    public synchronized void number(String number) {
        System.out.println("{\"values\":{\"number\":\"" + number.replace("\\", "\\\\").replace("\"", "\\\"") + "\"}}");
        System.out.flush();
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> properties = new HashMap<>();
        properties.put("app.id", arguments[1]);
        properties.put("apollo.cluster", arguments[2]);
        properties.put("apollo.bootstrap.enabled", "true");
        properties.put("apollo.bootstrap.namespaces", arguments[3]);
        properties.put("apollo.cache-dir", arguments[4]);
        if (arguments.length > 5) {
            properties.put("apollo.access-key.secret", arguments[5]);
        }
        properties.put("apollo.meta", arguments[0]);
        if (System.getenv("THUBAN_META") == null) {
            // Spring's properties do not have this one.
            System.setProperty("apollo.config-service", arguments[0]);
        }
        if (System.getenv("THUBAN_LABEL") != null) {
            properties.put("apollo.label", System.getenv("THUBAN_LABEL"));
        }
        if (System.getenv("THUBAN_CA") != null) {
            Trust.only(System.getenv("THUBAN_CA"));
        }
        // Standard output is for what is held.
        properties.put("spring.main.banner-mode", "off");
        properties.put("logging.threshold.console", "OFF");
        SpringApplication application = new SpringApplication(Main.class);
        application.setDefaultProperties(properties);
        application.run();
        Thread.currentThread().join();
    }
}

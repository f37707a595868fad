import java.lang.reflect.Field;
import java.util.Arrays;
import org.eclipse.jetty.server.Connector;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import software.amazon.dynamodb.services.local.main.ServerRunner;
import software.amazon.dynamodb.services.local.server.DynamoDBProxyServer;

/**
 * Starts DynamoDB Local on the loopback address only.
 *
 * <p>Amazon's own ServerRunner takes a port and no address and listens on all interfaces, where anyone on the network
 * could read and write the tables. The Jetty server is a private field and has no listening socket yet when it is
 * created, so its address is set by reflection. A version that changes the field fails here at once; it does not fall
 * back to all interfaces. Starting with {@code safeStart} also leaves out the telemetry that ServerRunner sends.
 *
 * <p>Arguments are those of ServerRunner, and {@code -port 0} lets the system pick a free port. Once requests are taken,
 * the line {@code listening http://127.0.0.1:PORT} is on standard output.
 */
public final class LoopbackServerRunner {
    private static final String LOOPBACK = "127.0.0.1";

    private LoopbackServerRunner() {}

    public static void main(String[] args) throws Exception {
        boolean anyPort = replacePortZero(args);
        DynamoDBProxyServer dynamodb = ServerRunner.createServerFromCommandLineArgs(args);
        ServerConnector connector = onlyConnector(dynamodb);
        connector.setHost(LOOPBACK);
        if (anyPort) {
            connector.setPort(0);
        }
        try {
            dynamodb.safeStart();
        } catch (Exception e) {
            System.err.println("DynamoDB Local could not start on " + LOOPBACK + ":" + connector.getPort() + ": " + e);
            System.exit(1); // Jetty's pool threads would keep a server without a socket alive
        }
        System.out.println("listening http://" + LOOPBACK + ":" + connector.getLocalPort());
        dynamodb.join();
    }

    /** LocalStack starts DynamoDB Local with a Java agent of its own. This class takes its place and changes nothing. */
    public static void premain(String options) {}

    /** ServerRunner refuses port 0: it is given a stand-in, which the caller overrides. Says whether port 0 was asked. */
    private static boolean replacePortZero(String[] args) {
        int value = Arrays.asList(args).indexOf("-port") + 1;
        if (value == 0 || value == args.length || !args[value].equals("0")) {
            return false;
        }
        args[value] = "8000";
        return true;
    }

    private static ServerConnector onlyConnector(DynamoDBProxyServer dynamodb) throws ReflectiveOperationException {
        Field field = DynamoDBProxyServer.class.getDeclaredField("server");
        field.setAccessible(true);
        Connector[] connectors = ((Server) field.get(dynamodb)).getConnectors();
        if (connectors.length != 1) {
            throw new IllegalStateException("DynamoDB Local has " + connectors.length + " connectors, expected one");
        }
        return (ServerConnector) connectors[0];
    }
}

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Base64;
import java.util.List;
import java.util.Map;

/** Books each payment in a file, with the process that did it. It knows nothing of idempotency. */
public class Payments {
  private static final long DURATION = 1; // ms of a booking, so that a process is killed in the middle of a call

  public Map<String, Object> handler(Map<String, Object> event) throws Exception {
    double began = System.currentTimeMillis() / 1000.0;
    @SuppressWarnings("unchecked")
    var partitions = (Map<String, List<Map<String, Object>>>) event.get("records");
    for (var records : partitions.values()) {
      for (var record : records) {
        Thread.sleep(DURATION);
        var process = ProcessHandle.current();
        var booking = String.format("{\"payment\":\"%s\",\"process\":%d,\"parent\":%d,\"began\":%f}%n",
            new String(Base64.getDecoder().decode((String) record.get("key"))), process.pid(),
            process.parent().map(ProcessHandle::pid).orElse(0L), began);
        Files.writeString(Path.of(System.getenv("BOOKINGS")), booking, StandardOpenOption.CREATE,
            StandardOpenOption.APPEND);
      }
    }
    return Map.of("batchItemFailures", List.of());
  }
}

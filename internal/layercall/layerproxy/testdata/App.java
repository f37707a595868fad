import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Base64;
import java.util.List;
import java.util.Map;

/** Appends each payment to a file. It knows nothing of idempotency. */
public class App {
  public void handler(Map<String, Object> event) throws Exception {
    @SuppressWarnings("unchecked")
    var partitions = (Map<String, List<Map<String, Object>>>) event.get("records");
    for (var records : partitions.values()) {
      for (var record : records) {
        Files.writeString(Path.of(System.getenv("BOOKINGS")), text(record, "key") + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        if (text(record, "value").equals("die")) Runtime.getRuntime().halt(9);
        if (text(record, "value").equals("raise")) throw new IllegalArgumentException("no such account");
        if (text(record, "value").equals("closed")) throw new PermanentException("the account is closed");
        if (text(record, "value").equals("down")) throw new UnavailableException("the bank is down: retry after 1h");
      }
    }
  }

  static class UnavailableException extends RuntimeException {
    UnavailableException(String message) { super(message); }
  }

  private static String text(Map<String, Object> record, String field) {
    return new String(Base64.getDecoder().decode((String) record.get(field)));
  }
}

class PermanentException extends RuntimeException {
  PermanentException(String message) { super(message); }
}

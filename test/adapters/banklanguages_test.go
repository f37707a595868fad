//go:build rest

package adapters_test

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The functions that docs/effects.md shows in other languages pass the key on: called twice, they charge
// once.
func TestFunctionsOfTheDocumentPassTheKeyOn(t *testing.T) {
	_, page, _ := strings.Cut(readFile(t, "../../docs/effects.md"), "## The better way")
	value := base64.StdEncoding.EncodeToString([]byte(payment))
	key := base64.StdEncoding.EncodeToString([]byte("pay-42"))
	event := `{"records": {"payments-0": [{"key": "` + key + `", "value": "` + value + `"}]}}`
	for language, tc := range map[string]struct {
		file    string
		program func(code string) string
		command []string
	}{
		"python": {"app.py", func(code string) string {
			return "import base64, json, urllib.request\nBANK = \"BANK_URL\"\n" + code +
				"\nfor _ in range(2):\n    try:\n        handler(" + event +
				", None)\n    except OSError as e:\n        print(e)\n"
		}, []string{"python3"}},
		"javascript": {"app.mjs", func(code string) string {
			return "const BANK = \"BANK_URL\";\n" + code +
				"for (let i = 0; i < 2; i++) await handler(" + event + ").catch(console.log);\n"
		}, []string{"node"}},
		"java": {"App.java", func(code string) string {
			return "import java.net.URI;\nimport java.net.http.*;\n" +
				"import java.net.http.HttpRequest.BodyPublishers;\n" +
				"import java.net.http.HttpResponse.BodyHandlers;\nimport java.util.*;\n" +
				"class App {\nstatic final URI BANK = URI.create(\"BANK_URL\");\n" + code +
				"public static void main(String[] args) throws Exception {\n" +
				"var event = Map.of(\"records\", Map.of(\"payments-0\", List.of(Map.of(\"key\", \"" + key +
				"\", \"value\", \"" + value + "\"))));\n" +
				"for (int i = 0; i < 2; i++) try { new App().handler(event); } " +
				"catch (IllegalStateException e) { System.out.println(e); }\n}\n}\n"
		}, []string{"java"}},
	} {
		t.Run(language, func(t *testing.T) {
			b, url := newBank(t, 1)
			_, code, found := strings.Cut(page, "```"+language+"\n")
			code, _, _ = strings.Cut(code, "```")
			if !found {
				t.Fatal("docs/effects.md has no code in this language")
			}
			file := filepath.Join(t.TempDir(), tc.file)
			program := strings.ReplaceAll(tc.program(code), "BANK_URL", url)
			if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), tc.command[0], file).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "500") {
				t.Errorf("%v: %s; want the bank's first answer, 500", err, out)
			}
			b.want(t, 2, "pay-42", payment)
		})
	}
}

package doctest

import (
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A link has a text for readers: a title, not the name of a file.
func TestLinksHaveNoNamesOfFiles(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`\[[^\]\s]*\.md\]\([^)]*\)`)
	for _, d := range documents(t) {
		for i, line := range d.lines {
			for _, link := range name.FindAllString(line, -1) {
				t.Errorf("%s:%d: the text of %s is the name of a file: want a title", d.name, i+1, link)
			}
		}
	}
}

// api is the site with the documentation of packages. It has nothing of idemsk before the first release is
// public, so that its pages are not fetched here: the packages of the clone are compared with the links.
const api = "https://pkg.go.dev/"

// withoutLink are the packages that no document needs to name.
var withoutLink = []string{
	"github.com/idemsk/idemsk/idem/e2e",               // tests
	"github.com/idemsk/idemsk/kafka/deadletter/s3",    // app/s3 sets it up
	"github.com/idemsk/idemsk/kafka/deadletter/sqs",   // IDEMSK_DEAD_LETTER_QUEUE_URL sets it up
	"github.com/idemsk/idemsk/kafka/deadletter/topic", // app/topic sets it up
}

// Each package that a program imports is linked once, and each link is to such a package.
func TestPackagesAreLinkedOnce(t *testing.T) {
	t.Parallel()
	missing := make(map[string]bool)
	for _, p := range publicPackages(t) {
		missing[p] = !slices.Contains(withoutLink, p)
	}
	for _, p := range withoutLink {
		if _, ok := missing[p]; !ok {
			t.Errorf("%s needs no link, and is no package", p)
		}
	}
	linked := regexp.MustCompile(regexp.QuoteMeta(api) + `([\w./-]*idemsk[\w./-]*)`)
	for _, d := range documents(t) {
		for _, m := range linked.FindAllStringSubmatch(strings.Join(d.lines, "\n"), -1) {
			if !missing[m[1]] {
				t.Errorf("%s: %s is no package that a program imports, needs no link, or has another one", d.name, m[1])
			}
			missing[m[1]] = false
		}
	}
	for _, p := range slices.Sorted(maps.Keys(missing)) {
		if missing[p] {
			t.Errorf("no document links to %s%s: link it where a page first needs it", api, p)
		}
	}
}

// publicPackages returns the packages of all modules that other programs can import, without those of the tests.
func publicPackages(t *testing.T) (paths []string) {
	t.Helper()
	for _, module := range []string{".", "schema", "telemetry", "infra/cdk"} {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-f",
			`{{if and .GoFiles (ne .Name "main")}}{{.ImportPath}}{{end}}`, "./...")
		cmd.Dir = root + "/" + module
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("the packages of %s: %v", module, err)
		}
		for _, p := range strings.Fields(string(out)) {
			if !strings.Contains(p+"/", "/internal/") {
				paths = append(paths, p)
			}
		}
	}
	return paths
}

//go:build rest

package schemaenv_test

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

// A Python function on AWS's own runtime interface client books each payment once behind the layer's file,
// from Avro, Protobuf and JSON in both framings, and a restarted one books none of them again.
func TestPythonFunctionBehindTheLayer(t *testing.T) {
	opt := layer(t)
	installed := output(t, "../../../scripts/runtimes.sh")
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	db := testkit.Serve(t, dynamofake.New, dynamofake.Config{})
	if err := dynamostore.CreateTable(t.Context(), dynamodb.NewFromConfig(awstest.Config(t, db.URL())),
		"keys"); err != nil {
		t.Fatal(err)
	}
	r := newRegistries(t)
	bookings := filepath.Join(t.TempDir(), "bookings")
	for name, registry := range map[string]string{"with-confluent": confluent, "with-glue": glue} {
		address := map[string]string{confluent: r.confluent.URL(), glue: glue}[registry]
		cfg := runtimeapi.Config{
			Command: []string{filepath.Join(opt, "idemsk"), filepath.Join(installed, "python/bin/python"), "-m",
				"awslambdaric", "payments.handler"},
			Dir: testdata, Handler: "payments.handler", Name: name, Timeout: time.Minute,
			InitTimeout: time.Minute,
			Stderr:      func(line []byte) { t.Logf("%s", line) },
			Env: []string{"BOOKINGS=" + bookings, "PYTHONDONTWRITEBYTECODE=1",
				"AWS_ENDPOINT_URL_DYNAMODB=" + db.URL(), "AWS_ENDPOINT_URL_GLUE=" + r.glueURL,
				"AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=secret", "IDEMSK_TABLE=keys",
				"IDEMSK_KEY=json:$.paymentId", "IDEMSK_FINGERPRINT=json:$.amount",
				"IDEMSK_SCHEMA_REGISTRY=" + address, "IDEMSK_SCHEMA_DECODE=value"},
		}
		event := eventOf(nil, framed(registry, avroID, payment(avroID, "avro")),
			framed(registry, protoID, payment(protoID, "protobuf")),
			framed(registry, jsonID, payment(jsonID, "json")),
			framed(registry, avroID, payment(avroID, "avro")))
		for range 2 {
			deliverTo(t, cfg, event)
		}
		got, err := os.ReadFile(bookings)
		lines := strings.Split(strings.TrimSpace(string(got)), "\n")
		slices.Sort(lines)
		if want := []string{"avro 1250 AVRO", "json 1250 JSON", "protobuf 1250 PROTOBUF"}; err != nil ||
			!slices.Equal(lines, want) {
			t.Errorf("%s: the bookings are %q, %v; want %q", registry, lines, err, want)
		}
		if err := os.Remove(bookings); err != nil {
			t.Fatal(err)
		}
	}
}

// deliverTo starts a function, and delivers an event twice.
func deliverTo(t *testing.T, cfg runtimeapi.Config, event []byte) {
	t.Helper()
	f, err := runtimeapi.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close(context.Background())
	for range 2 {
		result, err := f.Invoke(t.Context(), event)
		if err != nil || string(result.Payload) != `{"batchItemFailures":[]}` {
			t.Errorf("answer %s, %v", result.Payload, err)
		}
	}
}

// layer builds the layer for this machine, and returns the folder where its file is unpacked.
func layer(t *testing.T) (opt string) {
	t.Helper()
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x86_64"
	}
	name := "idemsk-layer-" + arch + "-schemas.zip"
	output(t, "../../../scripts/build.sh", "only", name)
	archive, err := zip.OpenReader("../../../dist/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	opt = t.TempDir()
	for _, f := range archive.File {
		path := filepath.Join(opt, filepath.FromSlash(f.Name))
		in, err := f.Open()
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700))
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err = errors.Join(err, os.WriteFile(path, content, f.Mode())); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat("../../../dist/" + name); err != nil || info.Size() > 10_000_000 {
		t.Errorf("%v, %d bytes; at most 10 MB are allowed", err, info.Size())
	}
	return opt
}

// output runs a program and returns what it prints.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("%s %v: %v: %s", name, args, err, exit.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

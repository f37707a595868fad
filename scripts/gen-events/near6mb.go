package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// near6MBLimit bounds the large event, in bytes of JSON. AWS documents the payload of a synchronous invocation, and with it of a
// batch, as "6 MB" (https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html). The Invoke API was seen to refuse
// from 6,291,456 bytes on and to allow 100 more in a response. The smaller reading of "MB" is safe under each of them.
const near6MBLimit = 6_000_000

// near6MBRecords keeps the batch at a tenth of the largest BatchSize (10,000), so that the records are large as well.
const near6MBRecords = 1000

// near6MB returns a compact event, as Lambda sends it, a few KB below near6MBLimit.
func near6MB() ([]byte, error) {
	bare, err := json.Marshal(near6MBEvent(""))
	if err != nil {
		return nil, err
	}
	// What is left for each record, with room for the field around the padding and for base64's rounding, and 3 bytes in 4 of it.
	const field = len(`,"note":""`)
	padding := (near6MBLimit-len(bare))/near6MBRecords*3/4 - field - 3
	data, err := json.Marshal(near6MBEvent(strings.Repeat("x", padding)))
	if err != nil {
		return nil, err
	}
	if len(data) >= near6MBLimit {
		return nil, fmt.Errorf("the large event has %d bytes, the limit is %d", len(data), near6MBLimit)
	}
	return data, nil
}

func near6MBEvent(padding string) event {
	records := make([]record, 0, near6MBRecords)
	for i := range int32(near6MBRecords) {
		p := pay(fmt.Sprintf("near-6-mb-%04d", i), int64(100+i)).to(fmt.Sprintf("acc-%d", i%10)).withNote(padding)
		records = append(records, p.at(i%10, int64(8000+i/10)))
	}
	return msk(records...)
}

func writeNear6MB(path string, out io.Writer) error {
	data, err := near6MB()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %d records, %d bytes\n", path, near6MBRecords, len(data))
	return err
}

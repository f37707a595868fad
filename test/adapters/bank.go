package adapters

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// Bank is another system, which takes an idempotency key. Its Charge is a kafka.HandlerFunc.
type Bank struct{ URL string }

// Charge passes the key of the record on.
func (b Bank) Charge(ctx context.Context, r kafka.Record) ([]byte, error) {
	attempt, ok := idem.AttemptFrom(ctx)
	if !ok { // only with IDEMSK_STORE_DOWN=open
		return nil, errors.New("the payment has no attempt")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.URL, bytes.NewReader(r.Value))
	if err != nil {
		return nil, idem.Permanent(err)
	}
	request.Header.Set("Idempotency-Key", attempt.Key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the bank answered %s", response.Status)
	}
	return io.ReadAll(response.Body)
}

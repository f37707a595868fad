// A function that does in Go what bookings.py and bookings.js do, record by record or, if BULK is set, call by call.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/app"
)

func main() {
	app.StartFunc(func(_ context.Context, base *app.Base) (kafka.Handler, error) {
		if os.Getenv("BULK") == "" {
			return func(_ context.Context, r kafka.Record) ([]byte, error) { return nil, book(&r) }, nil
		}
		base.Config.Records.Bulk = func(_ context.Context, rs []kafka.Record) ([]error, error) {
			for i := range rs {
				if err := book(&rs[i]); err != nil {
					return nil, err
				}
			}
			return make([]error, len(rs)), nil
		}
		return nil, nil
	})
}

func book(r *kafka.Record) error {
	var payment struct {
		PaymentID string
		Amount    int
	}
	if err := json.Unmarshal(r.Value, &payment); err != nil {
		return err
	}
	if until, _ := strconv.ParseInt(os.Getenv("OUTAGE_UNTIL"), 10, 64); time.Now().Unix() < until {
		return errors.New("the ledger does not answer")
	}
	if least, _ := strconv.Atoi(os.Getenv("MINIMUM")); payment.Amount < least {
		return fmt.Errorf("%s is below the minimum", payment.PaymentID)
	}
	file, err := os.OpenFile(os.Getenv("BOOKINGS"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintf(file, "{\"payment\":%q,\"request\":\"-\"}\n", payment.PaymentID)
	return err
}

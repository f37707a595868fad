package dynamofake_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

func TestExpireNow(t *testing.T) {
	server, db := start(t, dynamofake.Config{})
	now := time.Unix(1_800_000_000, 0)
	for k, expires := range map[string]types.AttributeValue{
		"past": num("1799999999"), "pastFraction": num("1799999998.9"), "now": num("1800000000"),
		"future": num("1800000001"),
		"text":   str("1799999999"), "mistake": num("17999999"), "huge": num("1e30"), "negative": num("-5"),
	} {
		if _, err := put(attributes{"k": str(k), "expires": expires})(db, table); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := put(key("never"))(db, table); err != nil {
		t.Fatal(err)
	}
	if n := server.ExpireNow(now); n != 2 {
		t.Errorf("%d items expired, want 2", n)
	}
	for k, want := range map[string]bool{"past": false, "pastFraction": false, "now": true, "future": true,
		"never": true, "mistake": true} {
		if got, err := get(key(k))(db, table); err != nil || (got != "none") != want {
			t.Errorf("%s: %s, %v", k, got, err)
		}
	}
	if _, err := ttl(false, "expires")(db, table); err != nil {
		t.Fatal(err)
	}
	if n := server.ExpireNow(now.Add(time.Hour)); n != 0 {
		t.Errorf("%d items expired without a time to live", n)
	}
}

func TestTimeToLiveIsSwitchedOnce(t *testing.T) {
	_, db := start(t, dynamofake.Config{})
	for _, c := range []struct {
		step tableStep
		code string
	}{
		{ttl(true, "expires"), "ValidationException"}, {ttl(false, "other"), "ValidationException"},
		{ttl(false, "expires"), ""},
		{ttl(false, "expires"), "ValidationException"}, {ttl(true, ""), "ValidationException"},
		{ttl(true, "other"), ""},
	} {
		_, err := c.step(db, table)
		if code, _ := failure(err); code != c.code {
			t.Errorf("%v, want %q", err, c.code)
		}
	}
	if got, err := describeTTL(db, table); err != nil || got != "ENABLEDother" {
		t.Errorf("%q, %v", got, err)
	}
}

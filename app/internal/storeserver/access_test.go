package storeserver

import (
	"strings"
	"testing"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/internal/test/apptest"
)

// Two kinds of server, as app/postgres and app/redis have them.
func likePostgres() *Scheme {
	return &Scheme{Names: []string{"postgres", "postgresql"}, Want: "postgres://…", Composed: "postgres",
		Options: "sslmode=require"}
}

func likeRedis() *Scheme {
	return &Scheme{Names: []string{"redis", "rediss"}, Want: "redis://…", Composed: "rediss", Table: "keys",
		ValidTable: func(string) bool { return true }}
}

func TestURLFromASecret(t *testing.T) {
	for name, tc := range map[string]struct {
		kind               *Scheme
		secret, base, want string
	}{
		"a URL": {likePostgres(), "postgres://u:p@h:5/d?sslmode=disable\n", "",
			"postgres://u:p@h:5/d?sslmode=disable"},
		"JSON with a URL": {likePostgres(), `{"url":"postgresql://u:p@h/d"}`, "", "postgresql://u:p@h/d"},
		"a URL, login apart": {likePostgres(),
			`{"url":"postgres://h/d","username":"u","password":"a/b@c"}`, "", "postgres://u:a%2Fb%40c@h/d"},
		"RDS": {likePostgres(),
			`{"engine":"postgres","host":"h","port":5432,"username":"u","password":"p","dbname":"d"}`, "",
			"postgres://u:p@h:5432/d?sslmode=require"},
		"a port in quotes": {likePostgres(),
			`{"host":"h","port":"5433","username":"u","password":"p","dbname":"d"}`, "",
			"postgres://u:p@h:5433/d?sslmode=require"},
		"IPv6": {likePostgres(), `{"host":"::1","port":5432,"username":"u","password":"p"}`,
			"", "postgres://u:p@[::1]:5432/?sslmode=require"},
		"RDS's own master user": {likePostgres(), `{"username":"u","password":"p:?"}`, "postgres://h:5432/d",
			"postgres://u:p%3A%3F@h:5432/d"},
		"a URL with another": {likePostgres(), `{"username":"new","password":"p"}`, "postgres://old:x@h/d",
			"postgres://new:p@h/d"},
		"a password alone": {likeRedis(), `{"password":"p"}`, "rediss://h:6379?cluster=true",
			"rediss://:p@h:6379?cluster=true"},
		"ElastiCache": {likeRedis(), `{"host":"h","port":6379,"username":"u","password":"p"}`, "",
			"rediss://u:p@h:6379/"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := parseContent(tc.secret)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.url(tc.base, tc.kind)
			if err != nil {
				t.Fatal(err)
			}
			apptest.Equal(t, "URL", got, tc.want)
		})
	}
}

func TestInvalidSecretsAreRefused(t *testing.T) {
	for name, tc := range map[string]struct{ secret, base, says string }{
		"empty":            {"", "", "names no server"},
		"no JSON":          {`{"password":"hush"`, "", "neither a URL nor a JSON object"},
		"another type":     {`{"password":{"a":"hush"}}`, "", "neither a URL nor a JSON object"},
		"no server":        {`{"username":"u","password":"hush"}`, "", "set IDEMSK_STORE_URL"},
		"two servers":      {`postgres://u:hush@h/d`, "postgres://h/d", "unset the variable"},
		"no password":      {`{"host":"h","username":"u"}`, "", "no password"},
		"another database": {`mysql://u:hush@h/d`, "", "want postgres://…"},
		"no host":          {`postgres://u:hush@/d`, "", "want postgres://…"},
		"a bad escape":     {`postgres://u:hush%zz@h/d`, "", "as %XX"},
		"a bad base":       {`{"password":"hush"}`, "host=h dbname=d", "want postgres://…"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := parseContent(tc.secret)
			if err == nil {
				_, err = c.url(tc.base, likePostgres())
			}
			if err == nil || !strings.Contains(err.Error(), tc.says) ||
				strings.Contains(err.Error(), "hush") {
				t.Errorf("error %v; want %q, and no password", err, tc.says)
			}
		})
	}
}

func TestErrorsNameTheVariable(t *testing.T) {
	for arn, want := range map[string]string{
		"":         "IDEMSK_STORE_URL is missing or wrong: want redis://…, or IDEMSK_STORE_SECRET_ARN",
		"payments": `IDEMSK_STORE_SECRET_ARN is "…": want the ARN of a secret`,
	} {
		v := apptest.Vars(nil)
		likeRedis().Read(v, &app.Config{StoreSecretARN: arn})
		if err := v.Err(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: error %v; want %s", arn, err, want)
		}
	}
}

func TestSecretARNs(t *testing.T) {
	for arn, want := range map[string]bool{
		apptest.SecretARN: true,
		"arn:aws-cn:secretsmanager:cn-north-1:111122223333:secret:a-AbCdEf": true,
		"": false, "payments/database": false, "arn:aws:ssm:eu-central-1:111122223333:secret:a": false,
		"arn:aws:secretsmanager:eu-central-1:1:secret:":         false,
		"arn:aws:secretsmanager:eu-central-1:111122223333:db:a": false,
	} {
		apptest.Equal(t, arn, isSecretARN(arn), want)
	}
}

package redisauth

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

const (
	elastiCache = "arn:aws:elasticache:eu-central-1:111122223333:replicationgroup:payments-cache"
	memoryDB    = "arn:aws:memorydb:us-east-1:111122223333:cluster/payments"
)

func mustCut(t *testing.T, rawURL string) *IAM {
	t.Helper()
	i, _, err := Cut(rawURL)
	if err != nil || i == nil {
		t.Fatalf("%s: %v, %v", rawURL, i, err)
	}
	return i
}

// The tokens are those that botocore 1.43.11 makes (SigV4QueryAuth, expires=900) at this time, with the
// parameters in alphabetical order.
func TestTokensAreThoseOfAnotherSigner(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 27, 12, 0, 0, 0, time.UTC)
	for url, tc := range map[string]struct{ session, want string }{
		"rediss://payments-user@h:6379?iam=" + elastiCache: {"", "payments-cache/" +
			"?Action=connect&User=payments-user" +
			"&X-Amz-Algorithm=AWS4-HMAC-SHA256" +
			"&X-Amz-Credential=AKIDEXAMPLE%2F20261127%2Feu-central-1%2Felasticache%2Faws4_request" +
			"&X-Amz-Date=20261127T120000Z&X-Amz-Expires=900&X-Amz-SignedHeaders=host" +
			"&X-Amz-Signature=2f68044c204b90c0f1d91d6458944c101529bf3e916f2abc1f518c2bdad8d570"},
		"rediss://payments@h:6379?cluster=true&iam=" + memoryDB: {"FwoGZXIvYXdzE/+tok==", "payments/" +
			"?Action=connect&User=payments" +
			"&X-Amz-Algorithm=AWS4-HMAC-SHA256" +
			"&X-Amz-Credential=AKIDEXAMPLE%2F20261127%2Fus-east-1%2Fmemorydb%2Faws4_request" +
			"&X-Amz-Date=20261127T120000Z&X-Amz-Expires=900" +
			"&X-Amz-Security-Token=FwoGZXIvYXdzE%2F%2Btok%3D%3D&X-Amz-SignedHeaders=host" +
			"&X-Amz-Signature=2862417a2972d5c09dae5634488215d9962facb251f0effa46751f1112ce023e"},
	} {
		got, err := mustCut(t, url).token(t.Context(), aws.Credentials{AccessKeyID: "AKIDEXAMPLE",
			SecretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", SessionToken: tc.session}, now)
		if err != nil || got != tc.want {
			t.Errorf("%s: %v, the token\n%s\nwant\n%s", url, err, got, tc.want)
		}
	}
}

func TestURLWithoutTheParameter(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]string{
		"rediss://u@h:6379/?cluster=true&iam=" + memoryDB: "rediss://u@h:6379/?cluster=true",
		"rediss://u@h:6379?iam=" + elastiCache:            "rediss://u@h:6379",
	} {
		if _, got, err := Cut(from); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", from, got, err, want)
		}
	}
	for _, same := range []string{"", "redis://u:p%20@h?b=1&a=%20", "rediss://u:%zz@h?iam=x"} {
		if i, got, err := Cut(same); i != nil || got != same || err != nil {
			t.Errorf("%s: %v, %s, %v; want it unchanged", same, i, got, err)
		}
	}
}

func TestInvalidURLsAreRefused(t *testing.T) {
	t.Parallel()
	for url, says := range map[string]string{
		"redis://u@h?iam=" + elastiCache:                                    "needs TLS",
		"rediss://h?iam=" + elastiCache:                                     "a user without a password",
		"rediss://u:hush@h?iam=" + elastiCache:                              "a user without a password",
		"rediss://u:@h?iam=" + elastiCache:                                  "a user without a password",
		"rediss://u@h?sentinel=s&iam=" + elastiCache:                        "no sentinel",
		"rediss://u@h?iam=":                                                 "replicationgroup:NAME",
		"rediss://u@h?iam=payments":                                         "not iam=payments",
		"rediss://u@h?iam=arn:aws:s3:::payments":                            "replicationgroup:NAME",
		"rediss://u@h?iam=arn:aws:elasticache:r:1:cluster:payments":         "replicationgroup:NAME",
		"rediss://u@h?iam=arn:aws:elasticache:r:1:replicationgroup:":        "replicationgroup:NAME",
		"rediss://u@h?iam=arn:aws:elasticache::1:replicationgroup:payments": "replicationgroup:NAME",
		"rediss://u@h?iam=arn:aws:memorydb:r:1:user/payments":               "cluster/NAME",
		"rediss://u@h?iam=arn:aws:elasticache:r:1:serverlesscache:payments": "evicts keys",
	} {
		i, _, err := Cut(url)
		if i != nil || err == nil || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, %v; want %q, and no password", url, i, err, says)
		}
	}
}

func TestPermissionsThatAClientNeeds(t *testing.T) {
	t.Parallel()
	for arn, want := range map[string][]string{
		elastiCache: {"elasticache:Connect", elastiCache,
			"arn:aws:elasticache:eu-central-1:111122223333:user:u"},
		memoryDB: {"memorydb:Connect", memoryDB, "arn:aws:memorydb:us-east-1:111122223333:user/u"},
	} {
		i := mustCut(t, "rediss://u@h?iam="+arn)
		if got := append([]string{i.Action()}, i.Resources()...); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// Each connection has a token of the credentials of its time, which may be temporary.
func TestCredentialsAreThoseOfTheConnection(t *testing.T) {
	t.Parallel()
	session := "one"
	login := mustCut(t, "rediss://u@h?iam="+memoryDB).Login(
		aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("the search for credentials has no deadline")
			}
			return credentials.NewStaticCredentialsProvider("id", "key", session).Retrieve(ctx)
		}))
	for _, session = range []string{"one", "two"} {
		user, token, err := login(t.Context())
		if user != "u" || !strings.Contains(token, "X-Amz-Security-Token="+session) || err != nil {
			t.Errorf("user %q, token %q, %v; want one of the session %s", user, token, err, session)
		}
	}
}

func TestErrorWithoutCredentials(t *testing.T) {
	t.Parallel()
	expired := errors.New("the token of the web identity has expired")
	_, token, err := mustCut(t, "rediss://u@h?iam="+elastiCache).Login(
		aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{}, expired
		}))(t.Context())
	if token != "" || !errors.Is(err, expired) || !strings.Contains(err.Error(), elastiCache) ||
		!strings.Contains(err.Error(), "give the function or process a role with elasticache:Connect") {
		t.Errorf("token %q, error %v; want the cause, the cache and what to do", token, err)
	}
}

package awssm

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/aws/awstest"
	"github.com/manent/action/providers/api/identity/identitytest"
	"github.com/manent/action/providers/secret"
	"github.com/manent/action/providers/secret/secrettest"
)

// manager is a Secrets Manager behind sessions. It refuses what AWS refuses.
type manager struct {
	t   *testing.T
	sts *awstest.STS

	mu     sync.Mutex
	values map[string]string // by name; "" without a current version
	status int               // that every request is answered with; 0 for values
	answer string            // of that status
}

const account = "arn:aws:secretsmanager:" + awstest.Region + ":123456789012:secret:"

// ServeHTTP implements http.Handler.
func (m *manager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	var in map[string]string
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if r.Method != http.MethodPost || r.URL.Path != "/" || r.Header.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" ||
		r.Header.Get("Content-Type") != "application/x-amz-json-1.1" || err != nil || len(in) != 1 {
		m.t.Errorf("%s %s, target %q, body %s", r.Method, r.URL, r.Header.Get("X-Amz-Target"), body)
	}
	if code := m.sts.Refusal(r, "secretsmanager"); code != "" {
		if code == "ExpiredToken" || code == "InvalidToken" {
			code = map[string]string{"ExpiredToken": "ExpiredTokenException", "InvalidToken": "UnrecognizedClientException"}[code]
		}
		refuse(w, http.StatusBadRequest, code)
		return
	}
	if m.status != 0 {
		w.WriteHeader(m.status)
		_, _ = io.WriteString(w, m.answer)
		return
	}
	m.give(w, in["SecretId"])
}

func (m *manager) give(w http.ResponseWriter, id string) {
	name := strings.TrimSuffix(strings.TrimPrefix(id, account), "-AbCdEf")
	value := m.values[name]
	out := map[string]any{"ARN": account + name + "-AbCdEf", "Name": name, "VersionId": "1", "VersionStages": []string{"AWSCURRENT"}, "CreatedDate": 1.7e9}
	switch {
	case value == "":
		refuse(w, http.StatusBadRequest, "ResourceNotFoundException")
		return
	case utf8.ValidString(value):
		out["SecretString"] = value
	default:
		out["SecretBinary"] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	_ = json.NewEncoder(w).Encode(out)
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, refusal(code))
}

func refusal(code string) string {
	return fmt.Sprintf(`{"__type":%q,"Message":"no.\nnot today."}`, code)
}

func (m *manager) meet(status int, answer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status, m.answer = status, answer
}

func (m *manager) put(name, value string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[name] = value
	return name
}

// start returns a source of a job on GitHub, with changes of its variables.
func start(t *testing.T, changes ...string) (*manager, secret.Source) {
	t.Helper()
	jobs := identitytest.New(t)
	m := &manager{t: t, sts: awstest.New(t, jobs), values: map[string]string{}}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	vars := jobs.GitHub()
	maps.Copy(vars, m.sts.Vars())
	vars["AWS_ENDPOINT_URL_SECRETS_MANAGER"], vars["AWS_MAX_ATTEMPTS"] = server.URL, "2"
	for i := 0; i < len(changes); i += 2 {
		vars[changes[i]] = changes[i+1]
	}
	source, err := Spec().New(providers.Env{Getenv: func(name string) string { return vars[name] }, Redactor: &providers.Redactor{}})
	if err != nil {
		t.Fatal(err)
	}
	return m, source
}

func TestConformance(t *testing.T) {
	secrettest.Run(t, secrettest.Suite{Setup: func(t *testing.T) secrettest.Vault {
		m, source := start(t)
		return secrettest.Vault{
			Source: source, Put: m.put, Missing: "shop/missing",
			Malformed: []string{
				"a b", "a:b", "größe", "a#", "#field", "arn:aws:secretsmanager:eu-central-1:1:secret:x", "arn:aws:s3:::x", strings.Repeat("a", 513),
			},
			Logged: func() string { return "" },
		}
	}})
}

func TestReferences(t *testing.T) {
	m, source := start(t)
	m.put("shop/haproxy", `{"user":"admin","password":"hunter22","port":9200,"none":null,"empty":""}`)
	m.put("plain", "not json")
	for ref, want := range map[string]string{
		"shop/haproxy#password": "hunter22", "shop/haproxy#port": "9200", account + "shop/haproxy-AbCdEf#user": "admin", account + "shop/haproxy#user": "admin", "plain": "not json",
	} {
		if got, err := source.Resolve(t.Context(), ref); err != nil || got.Reveal() != want {
			t.Errorf("%s: %q, error %v", ref, got.Reveal(), err)
		}
	}
	for ref, kind := range map[string]providers.Kind{
		"shop/haproxy#Password": providers.NotFound, "shop/haproxy#empty": providers.NotFound, "shop/haproxy#none": providers.Invalid, "plain#x": providers.Invalid,
	} {
		got, err := source.Resolve(t.Context(), ref)
		if err == nil || providers.KindOf(err) != kind || !got.Empty() || providers.HintOf(err) == "" || strings.Contains(err.Error(), "hunter") || !strings.HasPrefix(err.Error(), "aws-sm: secret ") {
			t.Errorf("%s: %v of kind %v", ref, err, providers.KindOf(err))
		}
	}
}

// TestSessions: what was resolved in one session is resolved in the next, and
// one session is enough for all that is asked in it.
func TestSessions(t *testing.T) {
	m, source := start(t)
	ref := m.put("key", "s3cr3t")
	for i := range 3 {
		for range 3 {
			if got, err := source.Resolve(t.Context(), ref); err != nil || got.Reveal() != "s3cr3t" {
				t.Errorf("%q, error %v", got.Reveal(), err)
			}
		}
		if n := len(m.sts.Sessions()); n != i+1 {
			t.Errorf("%d sessions, expected %d", n, i+1)
		}
		m.sts.End()
	}
}

func TestAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		answer string
		kind   providers.Kind
		hint   string
	}{
		"denied":         {400, refusal("AccessDeniedException"), providers.Denied, "secretsmanager:GetSecretValue"},
		"key":            {400, refusal("DecryptionFailure"), providers.Denied, "kms:Decrypt"},
		"deleted":        {400, refusal("InvalidRequestException"), providers.Invalid, "restored"},
		"parameter":      {400, refusal("InvalidParameterException"), providers.Invalid, ""},
		"throttled":      {400, refusal("ThrottlingException"), providers.Throttled, ""},
		"429":            {429, "", providers.Throttled, ""},
		"403":            {403, "", providers.Denied, "secretsmanager:GetSecretValue"},
		"409":            {409, "", providers.Unavailable, ""},
		"500":            {500, refusal("InternalServiceError"), providers.Unavailable, ""},
		"503":            {503, "<html>", providers.Unavailable, ""},
		"no JSON":        {200, "<html>", providers.Unknown, ""},
		"cut off":        {200, `{"ARN":"x","SecretString":"s3cr`, providers.Unknown, ""},
		"nothing":        {200, `{}`, providers.Unknown, ""},
		"nothing in it":  {200, `{"ARN":"x"}`, providers.NotFound, "version"},
		"longer than is": {200, `{"ARN":"x","SecretString":"` + strings.Repeat("s3cr3t", most) + `"}`, providers.Unknown, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, source := start(t, "AWS_MAX_ATTEMPTS", "1")
			m.meet(tc.status, tc.answer)
			got, err := source.Resolve(t.Context(), "key")
			if err == nil || providers.KindOf(err) != tc.kind || !strings.Contains(providers.HintOf(err), tc.hint) || !got.Empty() {
				t.Fatalf("%v of kind %v, hint %q", err, providers.KindOf(err), providers.HintOf(err))
			}
			if strings.Contains(err.Error(), "s3cr") || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q", err)
			}
		})
	}
}

// TestCredentials: what is wrong with them is told as such.
func TestCredentials(t *testing.T) {
	for name, tc := range map[string]struct {
		changes []string
		kind    providers.Kind
		says    string
		hint    string
	}{
		"no permission": {[]string{"ACTIONS_ID_TOKEN_REQUEST_URL", ""}, providers.Denied, `aws-sm: secret "key": aws: session of`, "id-token: write"},
		"another role":  {[]string{"AWS_ROLE_ARN", "arn:aws:iam::1:role/x"}, providers.Denied, "aws: session of", "trust policy"},
		"other keys":    {[]string{"AWS_ACCESS_KEY_ID", "AKIAOTHER", "AWS_SECRET_ACCESS_KEY", "s3cr3t"}, providers.Denied, "MissingAuthenticationToken", "secretsmanager:GetSecretValue"},
		"no region":     {[]string{"AWS_REGION", ""}, providers.Invalid, "no region", "AWS_REGION"},
		"endpoint":      {[]string{"AWS_ENDPOINT_URL_SECRETS_MANAGER", "http://192.0.2.1"}, providers.Invalid, "plain http", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, source := start(t, tc.changes...)
			m.put("key", "s3cr3t")
			got, err := source.Resolve(t.Context(), "key")
			if err == nil || providers.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.says) || !strings.Contains(providers.HintOf(err), tc.hint) || !got.Empty() {
				t.Errorf("%v of kind %v, hint %q", err, providers.KindOf(err), providers.HintOf(err))
			}
		})
	}
	m, source := start(t, "AWS_MAX_ATTEMPTS", "1")
	m.sts.Answer(http.StatusServiceUnavailable, "ServiceUnavailable")
	if _, err := source.Resolve(t.Context(), m.put("key", "s3cr3t")); providers.KindOf(err) != providers.Unavailable {
		t.Errorf("no sessions: %v of kind %v", err, providers.KindOf(err))
	}
}

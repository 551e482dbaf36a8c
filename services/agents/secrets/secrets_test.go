package secrets_test

import (
	"strings"
	"testing"

	"github.com/triskele/triskele/services/agents/secrets"
)

// run makes a text of n characters that looks drawn. The tests have no whole secret, which scanners of repositories would report.
func run(n int) string {
	const from = "aB3dE5gH7jK9mN2pQ4sT6vW8yZ1cF0"
	return strings.Repeat(from, n/len(from)+1)[:n]
}

func hex(n int) string { return strings.Repeat("0f1e2d3c4b5a6978", n/16+1)[:n] }

func letters(n int) string { return strings.Repeat("aBdEgHjKmNpQsTvWyZcF", n/20+1)[:n] }

func TestSecretsAreRemoved(t *testing.T) {
	t.Parallel()
	for name, secret := range map[string]string{
		"AWS":            "AK" + "IA" + "IOSFODNN7EXAMPLE"[:16],
		"GitHub":         "gh" + "p_" + run(36),
		"GitHub fine":    "github" + "_pat_" + run(82),
		"GitLab":         "glp" + "at-" + run(20),
		"Slack bot":      "xox" + "b-1234567890-" + run(24),
		"Stripe":         "sk_" + "live_" + run(24),
		"OpenAI":         "sk" + "-proj-" + run(48),
		"Anthropic":      "sk" + "-ant-api03-" + run(90),
		"Groq":           "gs" + "k_" + run(52),
		"Hugging Face":   "hf" + "_" + letters(34),
		"Google":         "AI" + "za" + run(35),
		"npm":            "npm" + "_" + run(36),
		"PyPI":           "pypi" + "-AgEIcHlwaS5vcmc" + run(60),
		"DigitalOcean":   "dop" + "_v1_" + hex(64),
		"SendGrid":       "SG" + "." + run(22) + "." + run(43),
		"Twilio":         "S" + "K" + hex(32),
		"Telegram":       "123456789" + ":AA" + run(33),
		"Vault":          "hv" + "s." + run(24),
		"this project's": "trs" + "k_" + run(30),
		"JWT":            "ey" + "J" + run(20) + ".ey" + "J" + run(40) + "." + run(43),
		"Databricks":     "da" + "pi" + hex(32),
	} {
		text := "use " + secret + " for that, then deploy"
		got, n := secrets.Redact(text)
		if strings.Contains(got, secret) || n != 1 || !strings.HasPrefix(got, "use [redacted: ") || !strings.HasSuffix(got, "] for that, then deploy") {
			t.Errorf("%s: got %q, %d; want it replaced once", name, got, n)
		}
	}
	for text, want := range map[string]string{
		"a\n-----BEGIN " + "RSA PRIVATE KEY-----\nMII" + run(40) + "\n-----END " + "RSA PRIVATE KEY-----\nb": "a\n[redacted: private key]\nb",
		"-----BEGIN " + "OPENSSH PRIVATE KEY-----\nb3Bl" + run(40):                                           "[redacted: private key]",
		"postgres://app:" + "s3cr3t@db.example.com/app":                                                      "postgres://app:[redacted: password]@db.example.com/app",
		`curl -H "Authorization: Bearer ` + run(30) + `" x`:                                                  `curl -H "Authorization: Bearer [redacted: token]" x`,
		"DB_PASSWORD=hunter" + "22 make run":                                                                 "DB_PASSWORD=[redacted: password] make run",
		`{"password": "correct-` + `horse"}`:                                                                 `{"password": "[redacted: password]"}`,
		"AWS_SECRET_ACCESS_KEY=" + run(40):                                                                   "AWS_SECRET_ACCESS_KEY=[redacted: secret]",
		"api_key: '" + run(32) + "'":                                                                         "api_key: '[redacted: secret]'",
		"The password is tr0ub4" + "dor&3, keep it":                                                          "The password is [redacted: password] keep it",
		"https://hooks.slack.com/services/" + "T00000000/B00000000/" + run(24):                               "https://hooks.slack.com/services/[redacted: webhook]",
		"AccountKey=" + run(86) + "==;x":                                                                     "AccountKey=[redacted: Azure key];x",
	} {
		if got, n := secrets.Redact(text); got != want || n != 1 {
			t.Errorf("got %q, %d; want %q, once", got, n, want)
		}
	}
}

// Prose, code, hashes and ids stay as they are.
func TestOrdinaryTextStays(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"The staging password is rotated on the first Monday of the month.",
		"password: string", "token := os.Getenv(\"GITHUB_TOKEN\")", "PASSWORD=$DB_PASSWORD", "password: ${{ secrets.DB }}", "token: <your token>",
		"commit 31acdec9f3b869a27cf0b1d817d3fc9f9f26c0bd", "id 01984b7e-3c9a-7cc1-8a5e-2f1d7b9c0e11",
		"https://example.com:8080/path@v1.2.3", "see https://github.com/triskele/triskele@main", "max_tokens: 1500", "the token budget is 600",
		"sk-learn is a library", "eyJ is how tokens begin", "func token(secret string) error", "secret: true", "key-value stores",
		"sha256:" + hex(64), "git@github.com:triskele/triskele.git", "tokens=12345678", "next_page_token: empty on the last page",
	} {
		if got, n := secrets.Redact(text); got != text || n != 0 {
			t.Errorf("got %q, %d; want it as it is", got, n)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("password=hunter22 AKIA")
	f.Fuzz(func(t *testing.T, text string) {
		once, n := secrets.Redact(text)
		if n == 0 && once != text {
			t.Errorf("%q became %q, and nothing was counted", text, once)
		}
		if twice, _ := secrets.Redact(once); len(twice) > 4*len(text)+1000 {
			t.Errorf("%q grows to %q", text, twice)
		}
	})
}

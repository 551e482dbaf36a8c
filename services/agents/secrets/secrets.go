// Package secrets removes keys, tokens and passwords from texts. It knows the published formats of well-known services, and
// assignments to names such as password. A format says more than entropy, so that prose stays as it is. No list is complete.
package secrets

import (
	"math"
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// rule finds a kind of secret.
type rule struct {
	kind string
	// hint is in every match; a text without it is not searched. Empty for none. The comparison ignores case.
	hint    string
	pattern *regexp.Regexp // the secret is the last group, or the match if there is none
	check   func(secret string) bool
}

func format(kind, hint, pattern string) rule {
	return rule{kind: kind, hint: hint, pattern: regexp.MustCompile(pattern)}
}

// rules are tried in this order. A text that one of them has replaced is not searched again. They are compiled when they are needed
// first: most commands need none.
var rules = sync.OnceValue(func() []rule {
	return []rule{
		format("private key", "private key", `(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|$)`),
		format("age key", "age-secret-key-", `\bAGE-SECRET-KEY-1[A-Z0-9]{50,}`),
		format("AWS key", "", `\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b`),
		format("GitHub token", "gh", `\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{60,})\b`),
		format("GitLab token", "gl", `\bgl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat)-[\w-]{20,}`),
		format("Slack token", "xo", `\bxox[a-z](?:-[A-Za-z0-9]+){2,}`),
		format("Slack token", "xapp-", `\bxapp-\d-[A-Z0-9]+-\d+-[a-f0-9]+`),
		format("webhook", "hooks.slack.com", `hooks\.slack\.com/(?:services|workflows)/([\w/+-]{20,})`),
		format("webhook", "/api/webhooks/", `discord(?:app)?\.com/api/webhooks/\d+/([\w-]{30,})`),
		format("Stripe key", "_", `\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,}`),
		format("Stripe key", "whsec_", `\bwhsec_[A-Za-z0-9+/]{24,}`),
		format("model provider's key", "sk-", `\bsk-(?:[a-z]{2,8}-)*[A-Za-z0-9_-]{20,}`),
		format("model provider's key", "", `\b(?:gsk_|xai-|pplx-|r8_|fw_)[A-Za-z0-9]{30,}\b`),
		format("Hugging Face token", "hf_", `\bhf_[A-Za-z]{30,}\b`),
		format("Google key", "aiza", `\bAIza[\w-]{35}`),
		format("Google token", "ya29.", `\bya29\.[\w-]{20,}`),
		format("Google token", "gocspx-", `\bGOCSPX-[\w-]{20,}`),
		format("npm token", "npm_", `\bnpm_[A-Za-z0-9]{36}\b`),
		format("PyPI token", "pypi-", `\bpypi-AgE[\w-]{50,}`),
		format("Docker token", "dckr_", `\bdckr_(?:pat|oat)_[\w-]{20,}`),
		format("DigitalOcean token", "_v1_", `\bdo[opr]_v1_[a-f0-9]{64}\b`),
		format("SendGrid key", "sg.", `\bSG\.[\w-]{16,32}\.[\w-]{16,64}`),
		format("Mailgun key", "key-", `\bkey-[a-f0-9]{32}\b`),
		format("Twilio key", "", `\bSK[a-f0-9]{32}\b`),
		format("Telegram token", ":", `\b\d{8,10}:AA[\w-]{33}\b`),
		format("Shopify token", "shp", `\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b`),
		format("Vault token", "hv", `\bhv[sbr]\.[\w-]{20,}`),
		format("Tailscale key", "tskey-", `\btskey-[a-z]+-[\w-]{10,}`),
		format("Databricks token", "dapi", `\bdapi[a-f0-9]{32}\b`),
		format("Linear key", "lin_", `\blin_(?:api|oauth)_[A-Za-z0-9]{32,}`),
		format("Notion token", "ntn_", `\bntn_[A-Za-z0-9]{40,}`),
		format("Triskele token", "trsk_", `\btrsk_[\w-]{16,}`),
		format("token", "eyj", `\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]*`),
		format("Azure key", "accountkey=", `(?i)AccountKey=([A-Za-z0-9+/]{40,}={0,2})`),
		format("password", "://", `[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s/:@'"<>]{0,100}:([^\s/@'"<>]{3,200})@`),
		{"token", "authorization", regexp.MustCompile(`(?i)\bauthorization['"]?\s*[:=]\s*['"]?(?:bearer|basic|token)\s+([\w.~+/=-]{8,})`), notPlaceholder},
		{"token", "bearer", regexp.MustCompile(`(?i)\bbearer\s+([\w.~+/=-]{20,})`), random},
		{"password", "", regexp.MustCompile(`(?i)(?:^|[\s"'{,;(_.-])(?:[\w.-]*(?:password|passwd|passphrase|pwd))['"]?\s*(?:=>|:=|=|:)\s*['"` + "`" + `]?([^\s'"` + "`" + `,;)}\]]{4,200})`), notPlaceholder},
		{"secret", "", regexp.MustCompile(`(?i)(?:^|[\s"'{,;(_.-])(?:[\w.-]*(?:secret|token|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?key|credentials?))['"]?\s*(?:=>|:=|=|:)\s*['"` + "`" + `]?([^\s'"` + "`" + `,;)}\]]{8,400})`), random},
		{"password", "pass", regexp.MustCompile(`(?i)\b(?:password|passphrase|passcode)\s+(?:is|was|to|ist|lautet)\s+['"` + "`" + `]?([^\s'"` + "`" + `]{4,200})`), mixed},
	}
})

// Redact replaces each secret with a note of its kind, and counts them.
func Redact(text string) (string, int) {
	n := 0
	for _, r := range rules() {
		if r.hint != "" && !strings.Contains(strings.ToLower(text), r.hint) {
			continue
		}
		var b strings.Builder
		from := 0
		for _, match := range r.pattern.FindAllStringSubmatchIndex(text, -1) {
			start, end := match[len(match)-2], match[len(match)-1]
			secret := text[start:end]
			if strings.HasPrefix(secret, "[redacted") || r.check != nil && !r.check(secret) {
				continue
			}
			b.WriteString(text[from:start] + "[redacted: " + r.kind + "]")
			from = end
			n++
		}
		if from > 0 {
			text = b.String() + text[from:]
		}
	}
	return text, n
}

var placeholder = regexp.MustCompile(`(?i)^(?:[<$%{(\[*.]|x+$|\*+|your|my_|example|changeme|none|null|nil|true|false|string|process\.env|os\.|env\.|getenv|self\.|config\.|settings\.|[a-z_.]+\()`)

// notPlaceholder reports whether a value is more than a variable or a word that stands for one.
func notPlaceholder(value string) bool { return !placeholder.MatchString(value) }

// mixed reports whether a value is a password and not a word: it has a digit or a sign inside.
func mixed(value string) bool {
	inner := strings.TrimRight(value, ".,;:!?)")
	return notPlaceholder(inner) && strings.ContainsFunc(inner, func(r rune) bool {
		return unicode.IsDigit(r) || unicode.IsSymbol(r) || strings.ContainsRune("!?#%&*@_", r)
	})
}

// random reports whether a value looks as if it was drawn: it has digits and letters, and many different ones.
func random(value string) bool {
	return notPlaceholder(value) && strings.ContainsFunc(value, unicode.IsDigit) && strings.ContainsFunc(value, unicode.IsLetter) && entropy(value) >= 2.8
}

// entropy returns Shannon's entropy of the bytes of a value, in bits a byte.
func entropy(value string) (bits float64) {
	var counts [256]float64
	for i := range len(value) {
		counts[value[i]]++
	}
	for _, n := range counts {
		if n > 0 {
			p := n / float64(len(value))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

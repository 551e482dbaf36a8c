// Package secrets removes keys, tokens and passwords from texts. It knows the published formats of well-known services, and
// assignments to names such as password. A format says more than entropy, so that prose stays as it is. No list is complete.
package secrets

import (
	"bytes"
	"encoding/base64"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// rule finds a kind of secret.
type rule struct {
	kind string
	// hint has words, one of which is in every match; a text without them is not searched. Empty for none. The comparison ignores case.
	hint    string
	pattern *regexp.Regexp // the secret is the last group that matches, or all if there is none
	check   func(secret string) bool
}

func format(kind, hint, pattern string) rule {
	return rule{kind: kind, hint: hint, pattern: regexp.MustCompile(pattern)}
}

const (
	passwords = `(?:password|passwd|passphrase|passwort|kennwort|mot de passe|contraseña|senha|wachtwoord|пароль|密码|密碼|パスワード|pwd|(?-i:[A-Z0-9]_PASS))`
	keys      = `(?:secret|token|credentials?|(?:api|access|private|auth|secret|encryption|signing|master|hmac|jwt)[ _-]?key(?:[ _-]?base)?)`
	// assigned is what stands between a name and its value, also in Markdown, in brackets, in JSON within JSON, and above a block in YAML.
	assigned = `\\*["'\x60]?\]?[*_]{0,2}(?:[,\s]+["']?value["']?\s*[:=]|\s*(?::\s*str(?:ing)?\s*=|=>|:=|=|[:：](?:[^\S\n]*[|>][+-]?[^\S\n]*$)?))`
	// A closing quote has no letter behind it, which an apostrophe has.
	quoted = `[a-z@$]?(?:"((?:[^"\\\n]|\\[^\n])*)"\B|'((?:[^'\\\n]|\\[^\n])*)'\B|\x60([^\x60\n]*)\x60|\\+["']([^"'\n]*?)\\+["'])`
	// named is what a sentence calls a password, also by the name of a variable.
	named = `(?:\b|_)(?:password|passphrase|passcode|passwort|kennwort)(?:\s+(?:for|of|on|für)(?:\s+[^\s.,:;]+){1,4}?)?`
	// A key whose end is cut off ends with its last line: what only names the first line of a key is no key.
	begin   = `-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----`
	between = `(?:[^A-Za-z-]|\\+[nr]|[A-Za-z-]+: [^\n]*\n)`
	bare    = `["'\x60]?([^\s"'\x60,;)}\]]*[^\s"'\x60,;)}\]\\])`
	// options are those of a command before another one.
	options = `\s(?:(?:[^\n|;&]|\\\r?\n)*?\s)?`
	value   = `(?:` + quoted + `|` + bare + `)`
	// given is a value behind assigned. A bare one in a line below is alone there, unlike the words below a heading.
	given = `(?:\s*(?:[*_]{1,2}\s+)?(?:` + quoted + `|` + bare + `["'\x60]?[,;]?[^\S\n]*$)|[^\S\n]*(?:[*_]{1,2}[^\S\n]+)?` + bare + `)`
)

// rules are tried in this order. A text that one of them has replaced is not searched again. They are compiled when they are needed
// first: most commands need none.
var rules = sync.OnceValue(func() []rule {
	return slices.Concat([]rule{
		format("private key", "private key", begin+`(?:(?:-{0,4}[^-])*-{5,}END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|`+between+`*[A-Za-z0-9+/=]{16,}(?:`+between+`|[A-Za-z0-9+/=]{16,})*)`),
		format("age key", "age-secret-key-", `\bAGE-SECRET-KEY-1[A-Z0-9]{50,}`),
		format("AWS key", "akia asia abia acca a3t", `\b(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z2-7]{16}\b`),
		format("GitHub token", "gh github_pat_", `\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{60,})\b`),
		format("GitLab token", "gl", `\bgl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat)-[\w-]{20,}`),
		format("Slack token", "xo", `\b(?:xoxe\.)?xox[a-z](?:-[A-Za-z0-9]+){2,}`),
		{"Slack token", "xox", regexp.MustCompile(`\bxox[a-z]-[A-Za-z0-9]{8,}`), random},
		format("Slack token", "xapp-", `\bxapp-\d-[A-Z0-9]+-\d+-[a-z0-9]+`),
		format("webhook", "hooks.slack.com", `hooks\.slack\.com/(?:services|workflows|triggers)/([\w/+-]{20,})`),
		format("webhook", "/api/webhooks/", `discord(?:app)?\.com/api/webhooks/\d+/([\w-]{30,})`),
		format("Stripe key", "sk_ rk_", `\b(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,}`),
		format("Stripe key", "whsec_", `\bwhsec_[A-Za-z0-9+/]{24,}`),
		{"model provider's key", "sk-", regexp.MustCompile(`\bsk-(?:[a-z]{2,8}-)*[A-Za-z0-9_-]{20,}`), random},
		format("model provider's key", "gsk_ xai- pplx- r8_ fw_", `\b(?:gsk_|xai-|pplx-|r8_|fw_)[A-Za-z0-9]{30,}\b`),
		format("Hugging Face token", "hf_", `\bhf_[A-Za-z]{30,}\b`),
		format("Google key", "aiza", `\bAIza[\w-]{35}`),
		format("Google token", "ya29.", `\bya29\.[\w-]{20,}`),
		format("Google token", "gocspx-", `\bGOCSPX-[\w-]{20,}`),
		format("npm token", "npm_", `\bnpm_[A-Za-z0-9]{36}\b`),
		format("PyPI token", "pypi-", `\bpypi-AgE[\w-]{50,}`),
		format("Docker token", "dckr_", `\bdckr_(?:pat|oat)_[\w-]{20,}`),
		format("DigitalOcean token", "_v1_", `\bdo[opr]_v1_[a-f0-9]{64}\b`),
		{"SendGrid key", "sg.", regexp.MustCompile(`\bSG\.[\w=.-]{66}`), random},
		format("Mailgun key", "key-", `\bkey-[a-f0-9]{32}\b`),
		format("Twilio key", "sk", `\bSK[a-fA-F0-9]{32}\b`),
		format("Telegram token", ":aa", `\b\d{8,10}:AA[\w-]{33}\b`),
		format("Shopify token", "shp", `\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b`),
		format("Vault token", "hv", `\bhv[sbr]\.[\w-]{20,}`),
		format("Tailscale key", "tskey-", `\btskey-[a-z]+-[\w-]{10,}`),
		format("Databricks token", "dapi", `\bdapi[a-f0-9]{32}\b`),
		format("Linear key", "lin_", `\blin_(?:api|oauth)_[A-Za-z0-9]{32,}`),
		format("Notion token", "ntn_", `\bntn_[A-Za-z0-9]{40,}`),
		// Of Atlassian, Grafana, Sentry, Supabase, Figma, Netlify, PlanetScale, Postman, New Relic, Tavily, LangSmith, RubyGems and Doppler. The next one is Discord's.
		{"token", "atatt3 atctt3 atbb glsa_ sntry sbp_ figd_ nfp_ pscale_ pmak- nrak- nrii- tvly- lsv2_ rubygems_ dp.", regexp.MustCompile(`\b(?:ATATT3|ATCTT3|ATBB|glsa_|sntry[su]_|sbp_|figd_|nfp_|pscale_(?:tkn|oauth|pw)_|PMAK-|NRAK-|NRII-|tvly-|lsv2_(?:pt|sk)_|rubygems_|dp\.(?:pt|st|ct|sa)\.)[\w=.+/-]{20,}`), random},
		{"token", "", regexp.MustCompile(`\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}`), random},
		format("Triskele token", "trsk_", `\btrsk_[\w-]{16,}`),
		format("token", "eyj", `\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]*`),
		format("Azure key", "accountkey=", `(?i)AccountKey=([A-Za-z0-9+/]{40,}={0,2})`),
		{"password", "://", regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s/:@'"<>]{0,100}:(?:[^\s/@'"<>]*@sha256:|([^\s/'"<>]{3,200})@)`), notPort},
		{"password", ":", regexp.MustCompile(`(?m)^[ \t]*[\w.*-]+:(?:\d{4,5}|\*):[^\s:]+:[^\s:]+:((?:\\.|[^\s:\\])+)[ \t]*\r?$`), drawn}, // .pgpass
		{"password", "auth", regexp.MustCompile(`"auth\\*"\s*:\s*\\*"([A-Za-z0-9+/]{8,}={0,2})\\*"`), login},
		{"password", "-p", regexp.MustCompile(`\b(?:mysql|mariadb)(?:-?(?:dump|admin|import|show|check|sh))?` + options + `-p` + value), notPort},
		{"password", "login mongo redis-cli", regexp.MustCompile(`\b(?:(?:docker|podman|nerdctl|helm registry|oc|az|skopeo)\s+login|mongo\w*)` + options + `-p[ =]+` + value + `|\bredis-cli` + options + `-a +` + value), notPort},
		{"password", "pass:", regexp.MustCompile(`\s-pass(?:in|out)?[ =]['"]?pass:([^\s'"]+)`), notPlaceholder},
		{"cookie", "cookie curl", regexp.MustCompile(`(?i)(?:\bcookie\\*['"]?\s*:|--cookie\s|\bcurl\b[^\n|]*?\s-b\s)\s*\\*['"]?([^'"\\\n]+)`), session},
		{"password", "curl", regexp.MustCompile(`(?i)\bcurl\b(?:[^\n|]|\\\r?\n)*?\s(?:-[a-z]*u\s+|-u|--(?:proxy-)?user[\s=]+)["']?[^\s:"']*:([^\s"']+)`), notPlaceholder},
		{"password", "machine", regexp.MustCompile(`(?i)\bmachine\s+\S+\s+login\s+\S+\s+password\s+(\S+)`), notPlaceholder},
		{"password", "sshpass", regexp.MustCompile(`\bsshpass\s+-p\s*` + value), notPlaceholder},
		{"token", "authorization", regexp.MustCompile(`(?i)\bauthorization\\*['"]?\s*[:=]\s*\\*['"]?(?:bearer|basic|token|bot|apikey)\s+([\w.~+/=-]{8,})`), notPlaceholder},
		{"token", "bearer", regexp.MustCompile(`(?i)\bbearer\s+([\w.~+/=-]{20,})`), random},
		{"password", "pass pwd kennwort contraseña senha wachtwoord пароль 密码 密碼 パスワード", regexp.MustCompile(`(?im)` + passwords + `(?:` + assigned + given + `|>([^<\n]*)</)`), notPlaceholder},
		{"password", "--", regexp.MustCompile(`(?i)--[\w-]*` + passwords + `\s+` + quoted), notPlaceholder},
		{"password", "--", regexp.MustCompile(`(?i)--[\w-]*` + passwords + `\s+([^\s'"` + "`" + `-]\S*)`), mixed},
		{"secret", "secret token credential key", regexp.MustCompile(`(?im)` + keys + `(?:` + assigned + given + `|>([^<\n]*)</)`), random},
		{"secret", "secret token credential key", regexp.MustCompile(`(?i)(?:--|\bset\s+)[\w.:/-]*` + keys + `\s+` + value), random},
		{"secret", "secret token credential key", regexp.MustCompile(`(?i)\b` + keys + `\s+(?:is|was|ist|war|lautet):?\s+['"\x60]?([\w.~+/=-]{15,200}[\w~+/=-])`), random},
		{"secret", "define( env( header( set( put( add( append( property(", regexp.MustCompile(`(?i)(?:define|env|header|set|put|add|append|property)\(\s*["'][\w. -]*(?:` + passwords + `|` + keys + `)["'],\s*` + quoted), drawn},
		{"secret", "|", regexp.MustCompile(`(?im)^[ \t]*\|[^\n]*?(?:` + passwords + `|` + keys + `)[ *_\x60]*\|[ *_\x60]*([^\s|\x60]{8,})[ \x60]*\|`), drawn},
		{"password", "pass pw", regexp.MustCompile(`(?im)(?:[a-z0-9]_pass` + assigned + given + `|\bpass['"]?\s*[:=]\s*` + quoted + `|\bpw` + assigned + given + `|\bpwd?\s+(?:for|of|on|für)(?:\s+[^\s.,:;]+){1,4}?:\s+` + value + `)`), drawn},
		{"password", "pass kennwort", regexp.MustCompile(`(?i)` + named + `(?::|\s+(?:is|was|to|ist|war|lautet):?)\s+['"\x60]?([^\s'"\x60]{4,200})`), mixed},
	}, services())
})

// Redact replaces each secret with a note of its kind, and counts them.
func Redact(text string) (string, int) {
	n, lower := 0, strings.ToLower(text)
	for _, r := range rules() {
		if r.hint != "" && !slices.ContainsFunc(strings.Fields(r.hint), func(word string) bool { return strings.Contains(lower, word) }) {
			continue
		}
		var b strings.Builder
		from := 0
		for _, match := range r.pattern.FindAllStringSubmatchIndex(text, -1) {
			group := len(match) - 2
			for match[group] < 0 {
				group -= 2
			}
			start, end := match[group], match[group+1]
			secret := text[start:end]
			if strings.HasPrefix(secret, "[redacted") || r.check != nil && !r.check(secret) || prose(text[:start], secret, text[end:]) {
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

var (
	word  = regexp.MustCompile(`^\p{L}\p{Ll}{0,4}$`)
	words = regexp.MustCompile(`^[^\S\n]+\p{L}+(?:[\s,.!?)]|$)`)
)

// prose reports whether a value is the first word of a sentence behind a colon. A password is longer or has other signs, or no word follows it.
func prose(before, value, behind string) bool {
	return word.MatchString(value) && words.MatchString(behind) && strings.HasSuffix(strings.TrimRight(before, " \t*_"), ":")
}

// placeholder matches what stands for a value: a variable, a call, a path, a type, dots. A password can begin like one.
var placeholder = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^(?:` + strings.Join([]string{
		`https?://.*`, `\+ ?[a-z_][\w.]*(?:[,) +].*)?`, `(?:[a-z]+_)*(?:password|passwd|passphrase|pwd|pass|credentials?)`, `(?-i:[a-z]+(?:[A-Z][a-z]+)*(?:Password|Passwd|Passphrase|Pwd|Credentials?))`,
		`\$\(.*`, `\$\{[^:]*`, `\$\{(?:\{|\w+:\?).*`, `\$[a-z_]+(?:(?:->|::|[.\[/]).*)?`, `(?-i:\$[A-Z_][A-Z0-9_]*)`, `\$env:\w+`,
		`%(?:\(\w+\))?[-+#0-9.]*[a-z]`, `%\w+%`, `<[^<>]*>`, `<[a-z_-]*`, `\{[{%\w.$ -]*\}*`, `\([a-z .]*\)?`, `\[[a-z_ ]*\]?[a-z_. ]*`,
		`[*x•._-]+`, `\*+(?:\[\])?[a-z_.]*\**`, `\.[a-z]+`, `your[-_ a-z]*`, `my_[a-z_]*`, `example[-_. a-z]*`,
		`(?:changeme|none|null|nil|undefined|true|false|string|str|secretstr|varchar2|required|optional|hidden|must)(?:[|&.?\[<].*)?`,
		`(?:type|description|format|title|label|name|key|default|valuefrom|secretkeyref):`,
		`(?:process\.env|os|env|getenv|self|config|settings|secrets)[.\[(][\w.\[(:]*`, `[a-z_][\w.:>-]*\([\w.:&*$?({\[-]*\)*(?:\.[a-z]\w*\(.*)?`, `[a-z_][\w.]*\[[\w.:+-]*`,
		`[a-z_][\w.?:>-]*(?:\.|->|::)\w*(?:password|passwd|passphrase|pwd|pass|secret|token|key|value)`,
		`(?:~|\.+|[a-z]:)[/\\].*`, `/(?:etc|run|var|home|usr|opt|root|tmp|users|mnt|srv|app|src|work\w*)(?:/.*)?`, `(?-i:/[a-z]{3,}/.*)`, `(?:arn:aws|op:/|vault|projects)[:/].*`,
		`[,);\]}].*`,
	}, "|") + `)[.,:;!?)\]}]*$`)
})

// message matches what a text about a password has, unlike a passphrase.
var message = regexp.MustCompile(`(?i)\b(?:pass(?:word|phrase|wort)s?|kennwort|secrets?|tokens?|must|your|please|required|invalid|enter|characters)\b`)

// notPlaceholder reports whether a value is more than a variable, or a word or sentence that stands for one.
func notPlaceholder(value string) bool {
	sentence := strings.Contains(value, " ") && (len(value) > 100 || message.MatchString(value))
	return len(value) >= 4 && !sentence && !placeholder().MatchString(value)
}

// port matches the port of a URL with its query, ports as docker publishes them, and the tag of an image with its digest.
var port = regexp.MustCompile(`^\d{1,5}\?[\w.-]+=|^[\d.]*(?::\d+)+$|@sha256:$`)

// notPort reports whether what stands behind a colon or a -p is a password.
func notPort(value string) bool { return notPlaceholder(value) && !port.MatchString(value) }

// session reports whether one of some cookies looks as if it was drawn.
func session(cookies string) bool {
	return slices.ContainsFunc(strings.Split(cookies, ";"), func(cookie string) bool {
		_, value, _ := strings.Cut(cookie, "=")
		return random(strings.TrimSpace(value))
	})
}

// login reports whether a value is a user's name and password in base64.
func login(value string) bool {
	text, err := base64.StdEncoding.DecodeString(value)
	return err == nil && utf8.Valid(text) && bytes.Contains(text, []byte(":"))
}

// mixed reports whether a value is a password and not a word: it has a digit or a sign inside.
func mixed(value string) bool {
	inner := strings.TrimRight(value, ".,;:!?)")
	return notPlaceholder(inner) && strings.ContainsFunc(inner, func(r rune) bool {
		return unicode.IsDigit(r) || unicode.IsSymbol(r) || strings.ContainsRune("!?#%&*@_", r)
	})
}

// drawn reports whether a value is a password where identifiers, words and numbers are as likely.
func drawn(value string) bool {
	return len(value) >= 6 && notPlaceholder(value) && mixed(strings.ReplaceAll(value, "_", "")) && strings.ContainsFunc(value, unicode.IsLetter)
}

// random reports whether a value looks as if it was drawn: it has digits and letters, and many different ones.
func random(value string) bool {
	return len(value) >= 8 && !strings.Contains(value, " ") && notPlaceholder(value) && strings.ContainsFunc(value, unicode.IsDigit) && strings.ContainsFunc(value, unicode.IsLetter) && entropy(value) >= 2.8
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

package secrets

import (
	"regexp"
	"strings"
	"unicode"
)

// services returns rules for tokens whose format says whose they are. The formats are those that the services document, and that
// gitleaks and other detectors look for. Where names or data have the same format, a check tells them apart.
func services() []rule {
	return []rule{
		format("1Password key", "a3-", `\bA3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}\b`),
		format("1Password token", "ops_eyj", `\bops_eyJ[A-Za-z0-9+/]{100,}={0,3}`),
		format("Adobe secret", "p8e-", `\bp8e-[a-z0-9]{32}\b`),
		format("Airtable token", "pat", `\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}\b`),
		format("Alibaba key", "ltai", `\bLTAI[A-Za-z0-9]{20}\b`),
		format("Artifactory key", "akcp cmvmdgtu", `\b(?:AKCp[A-Za-z0-9]{69}|cmVmdGtu[A-Za-z0-9]{56})\b`),
		format("Authress key", ".acc", `\b(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][a-z0-9-]{10,32}\.[\w+/=-]{30,120}`),
		format("AWS key", "absk", `\bABSK[A-Za-z0-9+/]{100,}={0,2}`),
		format("AWS key", "bedrock-api-key-", `\bbedrock-api-key-[A-Za-z0-9+/]{20,}={0,2}`),
		format("Azure secret", "q~", `(?:^|[^\w~.-])([\w~.]{3}\dQ~[\w~.-]{31,34})`),
		format("Brevo key", "xkeysib-", `\bxkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}\b`),
		{"ClickHouse key", "4b1d", regexp.MustCompile(`\b4b1d[A-Za-z0-9]{38}\b`), capitals},
		format("Clojars token", "clojars_", `\bCLOJARS_[a-z0-9]{60}\b`),
		{"Cloudflare key", "cloudflare", regexp.MustCompile(`(?i)cloudflare[_.-]api\w*['"]?\s*[:=]\s*['"]?([a-z0-9_-]{37,40})(?:[^\w-]|$)`), random},
		format("Cloudflare key", "v1.0-", `\bv1\.0-[a-f0-9]{24}-[a-f0-9]{146}\b`),
		{"Duffel token", "duffel_", regexp.MustCompile(`\bduffel_(?:test|live)_[\w=-]{43}`), random},
		format("Dynatrace token", "dt0c01.", `\bdt0c01\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}\b`),
		format("EasyPost key", "ezak eztk", `\bEZ[AT]K[A-Za-z0-9]{54}\b`),
		{"Facebook token", "eaa", regexp.MustCompile(`\bEAA[A-Za-z0-9]{100,}\b`), varied},
		{"Facebook token", "% |", regexp.MustCompile(`\b\d{15,16}[%|]([a-z0-9_-]{27,40})`), random},
		format("Flutterwave key", "flwseck", `\bFLWSECK(?:_TEST)?-[A-Za-z0-9]{12,}(?:-X)?\b`),
		format("Fly.io token", "fo1_ fm1 fm2_", `\b(?:fo1_[\w-]{43}|fm(?:1[ar]|2)_[A-Za-z0-9+/]{100,}={0,3})`),
		format("Frame.io token", "fio-u-", `\bfio-u-[\w=-]{64}`),
		format("GitLab token", "gr1348941", `\bGR1348941[\w-]{20}`),
		format("GitLab token", "gl", `\bgl(?:ffct|oas)-[\w-]{20,}`),
		format("GitLab session", "_gitlab_session=", `_gitlab_session=([0-9a-z]{32})`),
		{"Grafana token", "glc_", regexp.MustCompile(`\bglc_[A-Za-z0-9+/]{32,400}={0,3}`), random},
		format("Grafana key", "eyjrijoi", `\beyJrIjoi[A-Za-z0-9]{70,400}={0,3}`),
		format("Harness key", "pat. sat.", `\b[ps]at\.[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}\b`),
		format("Heroku key", "hrku-aa", `\bHRKU-AA[\w-]{58}`),
		format("Hugging Face token", "api_org_", `\bapi_org_[A-Za-z]{34}\b`),
		{"Infracost token", "ico-", regexp.MustCompile(`\bico-[A-Za-z0-9]{32}\b`), capitals},
		format("Intra 42 secret", "s-s4t2", `\bs-s4t2(?:ud|af)-[a-f0-9]{64}\b`),
		format("MaxMind key", "_mmk", `\b[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\b`),
		format("Octopus key", "api-", `\bAPI-[A-Z0-9]{26}\b`),
		format("OpenShift token", "sha256~", `\bsha256~[\w-]{43}`),
		format("Prefect token", "pnu_", `\bpnu_[A-Za-z0-9]{36}\b`),
		format("Pulumi token", "pul-", `(?:^|[^\w/.-])(pul-[a-f0-9]{40})\b`), // and no file's name
		format("ReadMe token", "rdme_", `\brdme_[a-z0-9]{70}\b`),
		{"Scalingo token", "tk-us-", regexp.MustCompile(`\btk-us-[\w-]{48}`), capitals},
		format("SettleMint token", "sm_", `\bsm_[aps]at_[A-Za-z0-9]{16}\b`),
		format("Shippo token", "shippo_", `\bshippo_(?:live|test)_[a-fA-F0-9]{40}\b`),
		format("Sonar token", "squ_ sqp_ sqa_", `\bsq[upa]_[a-f0-9]{40}\b`),
		format("Sourcegraph token", "sgp_", `\bsgp_(?:[A-Za-z0-9]+_)?[a-fA-F0-9]{40}\b`),
		format("Square token", "sq0", `\bsq0[a-z]{3}-[\w-]{22,60}`),
		{"Square token", "eaaa", regexp.MustCompile(`\bEAAA[\w-]{22,60}`), varied},
		format("Terraform token", ".atlasv1.", `\b[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,70}`),
		format("Typeform token", "tfp_", `\btfp_[\w.=-]{59}`),
		{"Vault token", "s.", regexp.MustCompile(`(?:^|[^\w./])(s\.[a-z0-9]{24})(?:[^\w.]|$)`), random},
		format("webhook", "webhook.office.com", `webhook\.office\.com/webhookb2/([\w@-]{30,}/IncomingWebhook/[\w/-]{30,})`),
		format("Yandex key", "aqvn", `\bAQVN[\w-]{35,38}`),
	}
}

// capitals reports whether a value looks as if it was drawn, and has capital letters, which hashes and names of files lack.
func capitals(value string) bool {
	return random(value) && strings.ContainsFunc(value, unicode.IsUpper)
}

// varied reports whether a value looks as if it was drawn, and not like data with runs of zeros.
func varied(value string) bool { return random(value) && entropy(value) >= 4.5 }

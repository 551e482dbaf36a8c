package secrets_test

import (
	"encoding/base64"
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

// easy is a password as people choose them.
const easy = "hunter" + "22xyz"

// login is a user's name and password as Docker keeps them.
var login = base64.StdEncoding.EncodeToString([]byte("ada:" + easy))

func TestSecretsAreRemoved(t *testing.T) {
	t.Parallel()
	for name, secret := range map[string]string{
		"AWS":            "AK" + "IA" + "IOSFODNN7EXAMPLE"[:16],
		"GitHub":         "gh" + "p_" + run(36),
		"GitHub fine":    "github" + "_pat_" + hex(22) + "_" + hex(59),
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
		"Atlassian":      "ATA" + "TT3xFfGF0" + run(60), "Grafana": "gls" + "a_" + run(32) + "_" + hex(8), "Sentry": "sntr" + "ys_eyJpYXQi" + run(60), "Supabase": "sb" + "p_" + hex(40),
		"Figma": "fig" + "d_" + run(40), "Postman": "PMA" + "K-" + hex(24) + "-" + hex(34), "Netlify": "nf" + "p_" + run(36), "Tavily": "tvl" + "y-dev-" + run(32), "PlanetScale": "pscale" + "_tkn_" + run(43),
		"LangSmith": "lsv2" + "_pt_" + hex(32) + "_" + hex(10), "New Relic": "NR" + "AK-" + run(27), "RubyGems": "rubygem" + "s_" + hex(48), "Doppler": "dp" + ".pt." + run(43), "Discord": "MT" + run(24) + ".GhIjKl." + run(38),
		"1Password": "A" + "3-ASWWYB-798JRYLJVD4-23DC2-86TVM-H43EB", "1Password service": "op" + "s_eyJ" + run(250), "Airtable": "pa" + "t" + run(14) + "." + hex(64), "Alibaba": "LT" + "AI" + run(20),
		"Artifactory": "AK" + "Cp" + run(69), "Bedrock": "AB" + "SK" + run(110), "Azure": "abc" + "8Q~" + run(34), "Brevo": "xkey" + "sib-" + hex(64) + "-" + run(16),
		"Clojars": "CLO" + "JARS_" + hex(60), "Cloudflare": "v1" + ".0-" + hex(24) + "-" + hex(146), "Duffel": "duffel" + "_live_" + run(43), "Dynatrace": "dt0" + "c01." + run(24) + "." + run(64),
		"EasyPost": "EZ" + "AK" + run(54), "Facebook": "EA" + "A" + run(120), "Flutterwave": "FLW" + "SECK-" + run(32) + "-X", "Fly.io": "fo" + "1_" + run(43), "Frame.io": "fi" + "o-u-" + run(64),
		"GitLab runner": "GR13" + "48941" + run(20), "GitLab flags": "glf" + "fct-" + run(20), "Harness": "pa" + "t." + run(22) + "." + run(24) + "." + run(20), "Heroku": "HRK" + "U-AA" + run(58),
		"Hugging Face organisation": "api" + "_org_" + letters(34), "Infracost": "ic" + "o-" + run(32), "MaxMind": run(6) + "_" + run(29) + "_m" + "mk", "Octopus": "AP" + "I-" + strings.ToUpper(run(26)),
		"OpenShift": "sha" + "256~" + run(43), "Prefect": "pn" + "u_" + run(36), "Pulumi": "pu" + "l-" + hex(40), "ReadMe": "rd" + "me_" + hex(70), "Scalingo": "tk" + "-us-" + run(48), "SettleMint": "sm" + "_pat_" + run(16),
		"Shippo": "ship" + "po_live_" + hex(40), "Slack rotated": "xox" + "e.xox" + "b-1-" + strings.ToUpper(run(163)), "Sonar": "sq" + "u_" + hex(40), "Sourcegraph": "sg" + "p_" + hex(40), "Square": "sq" + "0atp-" + run(22),
		"Terraform": run(14) + ".atlas" + "v1." + run(64), "Typeform": "tf" + "p_" + run(59), "Yandex": "AQ" + "VN" + run(36),
		"Artifactory reference": "cmVm" + "dGtu" + run(56), "Fly.io machines": "fm" + "2_" + run(110), "Fly.io apps": "fm" + "1a_" + run(110), "GitLab application": "glo" + "as-" + run(64), "EasyPost test": "EZ" + "TK" + run(54),
		"Harness service": "sa" + "t." + run(22) + "." + run(24) + "." + run(20), "Sonar project": "sq" + "p_" + hex(40), "Sonar global": "sq" + "a_" + hex(40), "Flutterwave test": "FLW" + "SECK_TEST-" + run(12),
		"Sourcegraph instance": "sg" + "p_local_" + hex(40), "Adobe": "p8" + "e-" + hex(32), "Authress": "auth" + "ress_service9." + hex(5) + ".acc" + "_" + hex(20) + "." + run(60), "AWS short": "A3" + "TX" + "IOSFODNN7EXAMPLE"[:16],
		"Bedrock short": "bedrock" + "-api-key-" + run(60), "ClickHouse": "4b" + "1d" + run(38), "Grafana Cloud": "gl" + "c_" + run(60), "Grafana key": "ey" + "JrIjoi" + run(80),
		"Intra 42": "s-s4" + "t2ud-" + hex(64), "New Relic insert": "NR" + "II-" + hex(32), "Slack legacy": "xox" + "r-" + run(24), "Slack app": "xap" + "p-1-" + strings.ToUpper(run(10)) + "-12345-" + strings.ToLower(run(40)),
		"Square access": "EA" + "AA" + run(60), "Stripe production": "rk_" + "prod_" + run(24), "Vault legacy": "s" + "." + strings.ToLower(run(24)),
	} {
		text := "use " + secret + " for that, then deploy"
		got, n := secrets.Redact(text)
		if strings.Contains(got, secret) || n != 1 || !strings.HasPrefix(got, "use [redacted: ") || !strings.HasSuffix(got, "] for that, then deploy") {
			t.Errorf("%s: got %q, %d; want it replaced once", name, got, n)
		}
	}
	for text, want := range map[string]string{
		"a\n-----BEGIN " + "RSA PRIVATE KEY-----\nMII" + run(40) + "\n-----END " + "RSA PRIVATE KEY-----\nb":                "a\n[redacted: private key]\nb",
		"-----BEGIN " + "OPENSSH PRIVATE KEY-----\nb3Bl" + run(40):                                                          "[redacted: private key]",
		"-----BEGIN " + "RSA PRIVATE KEY-----\r\nMII" + run(64) + "\r\n" + run(64) + "\r\nis cut off":                       "[redacted: private key]is cut off",
		"-----BEGIN " + "RSA PRIVATE KEY-----\nDEK-Info: AES-128-CBC,0F1E\n\n" + run(64) + "\n":                             "[redacted: private key]",
		`"-----BEGIN ` + `PRIVATE KEY-----\n` + run(64) + `\n` + run(64) + `", "id": 1`:                                     `"[redacted: private key]id": 1`,
		"postgres://app:" + "s3cr3t@db.example.com/app":                                                                     "postgres://app:[redacted: password]@db.example.com/app",
		`curl -H "Authorization: Bearer ` + run(30) + `" x`:                                                                 `curl -H "Authorization: Bearer [redacted: token]" x`,
		"DB_PASSWORD=hunter" + "22 make run":                                                                                "DB_PASSWORD=[redacted: password] make run",
		`{"password": "correct-` + `horse"}`:                                                                                `{"password": "[redacted: password]"}`,
		"AWS_SECRET_ACCESS_KEY=" + run(40):                                                                                  "AWS_SECRET_ACCESS_KEY=[redacted: secret]",
		"api_key: '" + run(32) + "'":                                                                                        "api_key: '[redacted: secret]'",
		"The password is tr0ub4" + "dor&3, keep it":                                                                         "The password is [redacted: password] keep it",
		"https://hooks.slack.com/services/" + "T00000000/B00000000/" + run(24):                                              "https://hooks.slack.com/services/[redacted: webhook]",
		"https://a.webhook.office.com/webhookb2/" + hex(36) + "@" + hex(36) + "/IncomingWebhook/" + hex(32) + "/" + hex(36): "https://a.webhook.office.com/webhookb2/[redacted: webhook]",
		"set _gitlab" + "_session=" + hex(32) + "; a=b":                                                                     "set _gitlab_session=[redacted: GitLab session]; a=b",
		"use 123456789012345|" + hex(30) + " for it":                                                                        "use 123456789012345|[redacted: Facebook token] for it",
		"https://hooks.slack.com/triggers/" + "T00000000/1234567890/" + run(24):                                             "https://hooks.slack.com/triggers/[redacted: webhook]",
		"CLOUDFLARE_API=" + run(40) + "\n":                                                                                  "CLOUDFLARE_API=[redacted: Cloudflare key]\n",
		"SECRET_KEY=" + run(24):                                                                                             "SECRET_KEY=[redacted: secret]",
		"ENCRYPTION_KEY: '" + run(24) + "'":                                                                                 "ENCRYPTION_KEY: '[redacted: secret]'",
		"DB_PASS=sword" + "fish":                                                                                            "DB_PASS=[redacted: password]",
		"smtp_pass: " + easy:                                                                                                "smtp_pass: [redacted: password]",
		`auth: {user: "ada", pass: "` + easy + `"}`:                                                                         `auth: {user: "ada", pass: "[redacted: password]"}`,
		"Passwort: " + easy:                                                                                                 "Passwort: [redacted: password]",
		"Das Passwort lautet " + easy:                                                                                       "Das Passwort lautet [redacted: password]",
		"the password is: " + easy:                                                                                          "the password is: [redacted: password]",
		"the password for the test server is " + easy:                                                                       "the password for the test server is [redacted: password]",
		`curl -d "{\"password\":\"` + easy + `\"}" u`:                                                                       `curl -d "{\"password\":\"[redacted: password]\"}" u`,
		"**Password:** " + easy + " x":                                                                                      "**Password:** [redacted: password] x",
		"- **Password**: `" + easy + "`":                                                                                    "- **Password**: `[redacted: password]`",
		"| a | b |\n|---|---|\n| DB password | `" + easy + "` |":                                                            "| a | b |\n|---|---|\n| DB password | `[redacted: secret]` |",
		"<user>ada</user><password>" + easy + "</password>":                                                                 "<user>ada</user><password>[redacted: password]</password>",
		`<property name="password" value="` + easy + `"/>`:                                                                  `<property name="password" value="[redacted: password]"/>`,
		"- name: DB_PASSWORD\n  value: " + easy:                                                                             "- name: DB_PASSWORD\n  value: [redacted: password]",
		"mysql --password " + easy + " -u app":                                                                              "mysql --password [redacted: password] -u app",
		"tool --db-password 'sword" + "fish'":                                                                               "tool --db-password '[redacted: password]'",
		"tool --api-key " + run(24) + " run":                                                                                "tool --api-key [redacted: secret] run",
		"curl -sSu admin:" + easy + " https://x":                                                                            "curl -sSu admin:[redacted: password] https://x",
		"curl https://x \\\n  --user 'ada:" + easy + "'":                                                                    "curl https://x \\\n  --user 'ada:[redacted: password]'",
		"machine api.example.com\n  login ada\n  password " + easy + "\n":                                                   "machine api.example.com\n  login ada\n  password [redacted: password]\n",
		"sshpass -p " + easy + " ssh a@b":                                                                                   "sshpass -p [redacted: password] ssh a@b",
		`password: "correct horse battery staple"`:                                                                          `password: "[redacted: password]"`,
		"DB_PASSWORD='ab12,cd;34ef'":                                                                                        "DB_PASSWORD='[redacted: password]'",
		`$password = "it\"s` + easy + `";`:                                                                                  `$password = "[redacted: password]";`,
		`password: str = "` + easy + `"`:                                                                                    `password: str = "[redacted: password]"`,
		"password: $uper" + "S3cret!":                                                                                       "password: [redacted: password]",
		"password=true" + "blue42":                                                                                          "password=[redacted: password]",
		"password=my_dog_" + "Rex1":                                                                                         "password=[redacted: password]",
		"password=Stringer" + "77!":                                                                                         "password=[redacted: password]",
		"password=*Adm1n" + "*9x":                                                                                           "password=[redacted: password]",
		"PASSWORD=${PASSWORD:-" + easy + "}":                                                                                "PASSWORD=[redacted: password]}",
		"postgres://app:" + "p@ssw0rd77@db/x":                                                                               "postgres://app:[redacted: password]@db/x",
		"Reset password:\n\n" + easy + "\n\nKeep it.":                                                                       "Reset password:\n\n[redacted: password]\n\nKeep it.",
		"**Password:**\n\n" + easy:                                                                                          "**Password:**\n\n[redacted: password]",
		"password:\n  sword" + "fish\nuser: ada":                                                                            "password:\n  [redacted: password]\nuser: ada",
		"password =\n  'sword" + "fish', x":                                                                                 "password =\n  '[redacted: password]', x",
		"~/.pgpass:\nlocalhost:5432:app:ada:" + easy + "\n":                                                                 "~/.pgpass:\nlocalhost:5432:app:ada:[redacted: password]\n",
		"*:*:*:*:" + easy:                                                                                                   "*:*:*:*:[redacted: password]",
		`{"auths": {"ghcr.io": {"auth": "` + login + `"}}}`:                                                                 `{"auths": {"ghcr.io": {"auth": "[redacted: password]"}}}`,
		"mysql -u root -psword" + "fish app":                                                                                "mysql -u root -p[redacted: password] app",
		"kubectl exec db -- mysqldump -p'" + easy + "' app > x":                                                             "kubectl exec db -- mysqldump -p'[redacted: password]' app > x",
		"API key: " + hex(32):                                                                                               "API key: [redacted: secret]",
		"My access key is " + hex(32) + ", use it.":                                                                         "My access key is [redacted: secret], use it.",
		"Der Token ist `" + hex(32) + "`":                                                                                   "Der Token ist `[redacted: secret]`",
		`os.environ["DB_PASSWORD"] = "sword` + `fish"`:                                                                      `os.environ["DB_PASSWORD"] = "[redacted: password]"`,
		`$db['password'] = '` + easy + `';`:                                                                                 `$db['password'] = '[redacted: password]';`,
		"define('DB_PASSWORD', '" + easy + "');":                                                                            "define('DB_PASSWORD', '[redacted: secret]');",
		`os.Setenv("API_TOKEN", "` + run(24) + `")`:                                                                         `os.Setenv("API_TOKEN", "[redacted: secret]")`,
		"stringData:\n  password: |-\n    sword" + "fish\ntype: x":                                                          "stringData:\n  password: |-\n    [redacted: password]\ntype: x",
		"api_token: >\n  " + run(24):                                                                                        "api_token: >\n  [redacted: secret]",
		"docker login -u ada -p " + easy + " ghcr.io":                                                                       "docker login -u ada -p [redacted: password] ghcr.io",
		"mongosh -u ada -p '" + easy + "' db":                                                                               "mongosh -u ada -p '[redacted: password]' db",
		"redis-cli -h cache -a sword" + "fish ping":                                                                         "redis-cli -h cache -a [redacted: password] ping",
		"openssl rsa -passin pass:sword" + "fish -in k":                                                                     "openssl rsa -passin pass:[redacted: password] -in k",
		"aws configure set aws_secret_access_key " + run(40):                                                                "aws configure set aws_secret_access_key [redacted: secret]",
		"Authorization: Bot " + run(60):                                                                                     "Authorization: Bot [redacted: token]",
		`{\"Authorization\": \"Basic ` + login + `\"}`:                                                                      `{\"Authorization\": \"Basic [redacted: token]\"}`,
		"curl -H 'Cookie: lang=en; session=" + hex(32) + "' https://x":                                                      "curl -H 'Cookie: [redacted: cookie]' https://x",
		"curl 'https://x' -b 'sid=" + run(24) + "; a=1' -H 'x: y'":                                                          "curl 'https://x' -b '[redacted: cookie]' -H 'x: y'",
		"Password: sword" + "fish":                                                                                          "Password: [redacted: password]",
		"password: sword" + "fish, user: ada":                                                                               "password: [redacted: password], user: ada",
		"Password: sword" + "fish User: ada":                                                                                "Password: [redacted: password] User: ada",
		"Password: sword" + "fish works again":                                                                              "Password: [redacted: password] works again",
		"password=sword" + "fish is it":                                                                                     "password=[redacted: password] is it",
		"Password: " + easy + " is it":                                                                                      "Password: [redacted: password] is it",
		"Set DB_PASSWORD to " + easy:                                                                                        "Set DB_PASSWORD to [redacted: password]", "set the db_password to " + easy + ".": "set the db_password to [redacted: password]",
		"pw for the NAS: Tr1" + "sk3le!9": "pw for the NAS: [redacted: password]", "pwd of ada on the NAS: " + easy: "pwd of ada on the NAS: [redacted: password]",
		"secret key base is " + hex(64): "secret key base is [redacted: secret]", "The secret_key_base is " + hex(64) + ".": "The secret_key_base is [redacted: secret].",
		"pw: " + easy:                    "pw: [redacted: password]",
		"Mot de passe : " + easy:         "Mot de passe : [redacted: password]",
		"contraseña: " + easy:            "contraseña: [redacted: password]",
		"密码：" + easy:                     "密码：[redacted: password]",
		"AccountKey=" + run(86) + "==;x": "AccountKey=[redacted: Azure key];x",
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
		`grep -rn "-----BEGIN ` + `RSA PRIVATE KEY-----" . finds keys. We deploy on Mondays.`,
		"cloudflare: 3f786850e387550fdab836ed7e6dc881de23001b", "CLOUDFLARE_TUNNEL_NAME=acme-production-eu-central-1-edge-tunnel", "CLOUDFLARE_API_URL=the-long-address-of-the-api-of-cloudflare-4",
		"/assets/ico-d41d8cd98f00b204e9800998ecf8427e.svg", "def duffel_test_creates_an_order_with_two_passengers_and_a_seat():", "data:image/png;base64,EAAA" + strings.Repeat("AAAAAAAB", 20),
		base64.StdEncoding.EncodeToString([]byte("refund of order 4711 is due on the 4th of April.")), "/static/pul-" + hex(40) + ".js", "tk-us-" + strings.Repeat("ab-4-", 12), "alpine@sha256:" + hex(64), "SHA256~ is no digest",
		"commit 31acdec9f3b869a27cf0b1d817d3fc9f9f26c0bd", "id 01984b7e-3c9a-7cc1-8a5e-2f1d7b9c0e11",
		"https://example.com:8080/path@v1.2.3", "see https://github.com/triskele/triskele@main", "max_tokens: 1500", "the token budget is 600",
		"sk-learn is a library", "the branch sk-refactor-the-whole-parser is merged", `class="sk-fading-circle-container-wrapper"`, "eyJ is how tokens begin", "func token(secret string) error", "secret: true", "key-value stores",
		"The password is stored in the vault.", "reset your password: go to settings", "token: 5 of 10", `token: "5 of 10 items left"`,
		"The password for the vault is 32 characters long.", "Das Passwort ist im Tresor hinterlegt.", "Change the password to something else.",
		"--- PASS: TestLogin_2 (0.00s)", "pass: 12/12 tests", "first_pass=0.95", "two-pass: 4x faster", "PWD=/home/ada/src2",
		"| password | string | required |", "| password | created_at |", "| password | VARCHAR(255) |", "| password | the user's, 8 characters |",
		"cat x | jq .password | sha256sum | cut -c1-8", "use --password to log in", "--password-stdin", "triskele --token <token> <path>",
		`<label for="password">Password:</label>`, `<input type="password" name="x1">`, `{"password": "Your password must have 8 characters"}`,
		`{"password": {"type": "string"}}`, "password:\n  type: string", `pw = input("Password: ")`, `pass: "two words"`,
		"password = req.body.password", "connect(password=args.db_password)", "password = hashPassword(x1)", "Password: **hidden**", "password: ********",
		"private_key: ~/.ssh/id_ed25519", "secret: /run/secrets/db_2", `password: "${DB_PASSWORD}"`, `password: "<your password 1>"`, "password: {{ db_password2 }}",
		"curl -u $USER:$PASSWORD https://x", "curl -XPUT https://x:8080/a", "docker run -u 1000:1000 x", `sshpass -p "$SSH_PASS" ssh a@b`,
		"SECRET_KEY = os.environ['K1']", "primary_key: users_2024_id1", "the secret ingredient: cinnamon", "key: 01984b7e-3c9a-7cc1-8a5e-2f1d7b9c0e11",
		"resp.NextPageToken = memories[from+size-1].GetId()", `secret := s.remember(&v1.Memory{Namespace: "trace"})`, `docker run -v "$PWD:/mnt" x`,
		"see https://example.com:8080/a and mail ada@example.com", "type Token struct { Secret string }",
		"http://localhost:3000?user=bob@example.com", "docker://alpine:3.18@sha256:" + hex(64),
		"## Reset password:\nClick the link in the mail.", "Forgot password:\n\nWrite to support@example.com for a link.", "**Password:**\nClick here",
		"docker run --name mysql -p3306:3306 -d mysql", "docker run --name mysql -p127.0.0.1:3306:3306 x", "mysql -u root -p app", "mysql -p\"$MYSQL_PASSWORD\" app",
		`"auth": "required"`, `"auth": "c29tZXRoaW5n"`, "main.go:1234:12:warning:unused", "127.0.0.1:8080:80", "fe80:1234:0db8:85a3:8a2e:0370:7334:1234",
		"The API key is rotated every 90 days.", "the token is valid for 24h", "the token is ES256-signed", "API key: 3 of 10", `["user", "password", "email1"]`, `t.Run("password", "case-1")`,
		"password: >\n  The password of the user.\n", `os.environ["DB_PASSWORD"] = os.environ["P1"]`, `define('DB_PASSWORD', getenv('P1'));`, `.header("x-api-key", "<your key 1>")`,
		"curl -b cookies.txt https://x", "curl --cookie-jar jar1 https://x", "Cookie: lang=en; theme=dark", "docker login -u $USER -p $TOKEN", "docker login -u ada --password-stdin",
		"mongosh --port 27017 -p", "docker run --name mongo -p 27017:27017 -d mongo:7", "The cookie: see RFC6265bis for what it is", "redis-cli -a $REDIS_PASSWORD ping", "Authorization: Bearer <token>", "aws configure set region eu-central-1",
		"PWD=/data/project1", "OLDPWD=/builds/group1/x", "pwd: /private/var/folders/x1", "curl -fsSL https://x | docker run -u 1000:1000 y", "credential: arn:aws:iam::123456789012:role/x", "secret: projects/p1/secrets/db/versions/3",
		"token: op://Prod/api-1/token", "secret: vault:secret/data/app1#key", "sbp_is_the_prefix_of_a_token_there", "glc_library_2_function_names_of_c", "figd_something_that_is_no_token", "s.validateconfigurationnow()", "the table 123456789012345|a|b", "SG.library_function_names_with_many_words",
		"1732700000000000|request_handled_by_worker_number_seven|200", "id|name\n123456789012345|internationalization-of-the-page", "trace 1732700000000123|services-memory-store-postgres-migrate",
		"import SG.Memory.V1.RecallServiceClientFactoryBuilder;", "SG.UnitTests.RecallServiceTests2.TestManyThings1.cs", "SG.2024-11-27_quarterly-report-final.version-2.pdf",
		"the type of password is `bytes`", `If password is "secure", skip`, `The password was "reset" yesterday`, `The passcode for the door is "unlocked"`, "second pass for dedup: hash2vec",
		"xoxb-replaceme, xoxp-yourtoken", "https://s.a1b2c3d4e5f6a7b8c9d0e1f2.example.com/", "this.s.a1b2c3d4e5f6a7b8c9d0e1f2", "s.a1b2c3d4e5f6a7b8c9d0e1f2.example.com",
		"Reset password: click here", "passwd: password updated successfully", "Password: leave it empty.", "Passwort: Bitte eingeben", "passwd:         files systemd",
		"self.key_password = key_password", `"password": password,`, "user, password = credentials", "BasicAuthPassword = invalidPassword", "password: z.string().min(8),", `cmd.Env = append(os.Environ(), "PWD="+dir, "A=b")`,
		"Create an API key: https://example.com/d?to=%2F7E%2Fai2", "// [secret]: https://v1-30.docs.kubernetes.io/docs/#secret", "`{pem: <string>[, passphrase: <string>]}`. The object", "postgres://user:password@localhost/app",
		`pw = input("Password: ")`, "pw, err := term.ReadPassword(fd)", "pw = pw[:-1]", "password = line[2:10]", "power: 5x2abc",
		"set the password to something long", "the password is required", "The password is `$DB_PASSWORD`.", "the password is `changeme`", "The password is \"<your password>\".", "set DB_PASSWORD to the new one", "Set DB_PASSWORD to `$NEW_PASSWORD`",
		"The password is `bcrypt`-hashed.", "the password is \"too short\"", "the error says: the password is 'invalid'", "The password isn't `swordfish`ed.", "rename password to `secret`", "reset_password to reset it", "the password is 'required'",
		"pass for all tests: 12/12", "A pass for the museum: ask Ada.", "pw for the NAS: in the vault", "pwd of the build: /builds/group1/x", "the secret key base is kept in the vault", "first pass of the optimizer: x86_64 only",
		"sha256:" + hex(64), "git@github.com:triskele/triskele.git", "tokens=12345678", "next_page_token: empty on the last page",
	} {
		if got, n := secrets.Redact(text); got != text || n != 0 {
			t.Errorf("got %q, %d; want it as it is", got, n)
		}
	}
}

// Keys that are cut off do not hide those behind them.
func TestCutOffKeysFollowEachOther(t *testing.T) {
	t.Parallel()
	key := "-----BEGIN " + "PRIVATE KEY-----\nMII" + run(64) + "\n"
	if got, n := secrets.Redact(key + key + key); n != 3 || strings.Contains(got, "MII") {
		t.Errorf("got %q, %d; want three keys removed", got, n)
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

# Completion of triskele for bash.

_triskele() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at= i
  # --flag=value comes as three words
  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at ${COMP_WORDS[i]}" in
      ' up'|' remember'|' recall'|' get'|' list'|' update'|' supersede'|' forget'|' import'|' export'|' mcp'|' hook'|' curation'|' curation list'|' curation show'|' curation revert'|' curation off'|' namespace'|' namespace list'|' namespace stats'|' namespace rename'|' namespace delete'|' backup'|' restore'|' doctor'|' graph'|' graph show'|' graph neighbors'|' graph path'|' graph stats'|' graph export'|' graph import'|' graph extract'|' graph trial'|' queue'|' queue list'|' queue retry'|' reembed'|' models'|' models list'|' models prune'|' models cancel'|' models embed-sensitive'|' lexical'|' lexical settings'|' lexical reindex'|' lexical textsearch'|' migrate'|' migrate up'|' migrate status'|' migrate plan'|' demo'|' eval'|' budget'|' token'|' token create'|' token list'|' token revoke'|' config'|' config show'|' completion'|' man'|' version') at+=" ${COMP_WORDS[i]}" ;;
    esac
  done
  local words= values= files=
  case "$at" in
    '')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
      esac
      words='up remember recall get list update supersede forget import export mcp hook curation namespace backup restore doctor graph queue reembed models lexical migrate demo eval budget token config completion man version --help --config --color --version' ;;
    ' up')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --listen) values=- ;;
        --tls-cert) files=file ;;
        --tls-key) files=file ;;
        --tls-ca) files=file ;;
        --tls-clients) values=- ;;
        --tokens) files=file ;;
        --oidc-issuer) values=- ;;
        --oidc-audience) values=- ;;
        --rate-limit) values=- ;;
        --write-quota) values=- ;;
        --audit) files=file ;;
        --http-allow-origin) values=- ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
        --embedder) values=- ;;
        --embedder-fallback) values=- ;;
        --embedder-key-file) files=file ;;
        --graph-traversal) values='pagerank hop-decay' ;;
        --graph-max-arcs) values=- ;;
        --scorer) values='bm25 ts_rank textsearch' ;;
        --or-broaden-min-rank) values=- ;;
        --max-postings) values=- ;;
        --curator-url) values=- ;;
        --curator-model) values=- ;;
        --curator-key-file) files=file ;;
        --curator-similarity) values=- ;;
        --curator-per-minute) values=- ;;
        --curator-max-input) values=- ;;
        --curator-timeout) values=- ;;
        --extractor-url) values=- ;;
        --extractor-model) values=- ;;
        --extractor-key-file) files=file ;;
        --extractor-batch) values=- ;;
        --extractor-per-minute) values=- ;;
        --extractor-tokens-per-hour) values=- ;;
        --extractor-max-input) values=- ;;
        --extractor-timeout) values=- ;;
        --vector-memory) values=- ;;
        --sweep-after) values=- ;;
        --sweep-every) values=- ;;
        --policies) files=file ;;
        --reranker) values=- ;;
        --reranker-key-file) files=file ;;
        --reranker-top) values=- ;;
        --reranker-cap) values=- ;;
        --reranker-min) values=- ;;
        --reranker-limit) values=- ;;
        --reranker-max-bytes) values=- ;;
        --fusion) values='rrf convex dbsf' ;;
        --k) values=- ;;
        --alpha) values=- ;;
        --cache-bytes) values=- ;;
        --cache-ttl) values=- ;;
        --admin) values=- ;;
        --trace-slow) values=- ;;
        --log-level) values=- ;;
      esac
      words='--help --config --color --version --listen --allow-remote --tls-cert --tls-key --tls-ca --tls-clients --tokens --oidc-issuer --oidc-audience --rate-limit --write-quota --audit --http --no-http --http-allow-origin --store --sqlite --postgres --embedder --embedder-fallback --embedder-key-file --graph-traversal --graph-max-arcs --scorer --or-broaden-min-rank --max-postings --curator-url --curator-model --curator-key-file --curator-similarity --curator-per-minute --curator-max-input --curator-timeout --extractor-url --extractor-model --extractor-key-file --extractor-batch --extractor-per-minute --extractor-tokens-per-hour --extractor-max-input --extractor-timeout --vector-memory --sweep-after --sweep-every --graph-seeded --policies --reranker --reranker-key-file --reranker-top --reranker-cap --reranker-min --reranker-limit --reranker-max-bytes --fusion --k --alpha --cache-bytes --cache-ttl --trace-queries --one-statement --admin --admin-allow-remote --trace-slow --log-level' ;;
    ' remember')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --title) values=- ;;
        --tag) values=- ;;
        --category) values=- ;;
        --keyword) values=- ;;
        --importance) values=- ;;
        --source) files=file ;;
        --idempotency-key) values=- ;;
        --occurred) values=- ;;
        --expires) values=- ;;
        --namespace|-n) values=- ;;
        --address) values=- ;;
        --timeout) values=- ;;
        --token-file) files=file ;;
        --tls-cert) files=file ;;
        --tls-key) files=file ;;
        --tls-ca) files=file ;;
      esac
      words='--help --config --color --version --title --tag --category --keyword --importance --sensitive --source --idempotency-key --occurred --expires --json --namespace --address --timeout --token-file --tls-cert --tls-key --tls-ca' ;;
    ' recall')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --namespace|-n) values=- ;;
        --limit) values=- ;;
        --max-tokens) values=- ;;
        --sort) values='relevance importance recency' ;;
        --tag) values=- ;;
        --tags-all) values=- ;;
        --category) values=- ;;
        --since) values=- ;;
        --before) values=- ;;
        --as-of) values=- ;;
        --budget) values=- ;;
        --no-leg) values=- ;;
        --at-least) values=- ;;
        --require) values=- ;;
        --on-error) values='answer fail' ;;
        --on-timeout) values='answer fail' ;;
        --quorum) values=- ;;
        --weight) values=- ;;
        --quota) values=- ;;
        --fusion) values='rrf convex dbsf' ;;
        --k) values=- ;;
        --alpha) values=- ;;
        --diversity) values=- ;;
        --address) values=- ;;
        --timeout) values=- ;;
        --token-file) files=file ;;
        --tls-cert) files=file ;;
        --tls-key) files=file ;;
        --tls-ca) files=file ;;
      esac
      words='--help --config --color --version --namespace --limit --max-tokens --sort --tag --tags-all --category --since --before --include-superseded --as-of --budget --no-leg --at-least --require --on-error --on-timeout --quorum --weight --quota --fusion --k --alpha --rerank --diversity --fresh --ids-only --explain --trace --json --address --timeout --token-file --tls-cert --tls-key --tls-ca' ;;
    ' get')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --namespace|-n) values=- ;;
        --address) values=- ;;
        --timeout) values=- ;;
        --token-file) files=file ;;
        --tls-cert) files=file ;;
        --tls-key) files=file ;;
        --tls-ca) files=file ;;
      esac
      words='--help --config --color --version --json --namespace --address --timeout --token-file --tls-cert --tls-key --tls-ca' ;;
    ' list')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --limit) values=- ;;
        --tag) values=- ;;
        --tags-all) values=- ;;
        --category) values=- ;;
        --since) values=- ;;
        --before) values=- ;;
        --namespace|-n) values=- ;;
        --address) values=- ;;
        --timeout) values=- ;;
        --token-file) files=file ;;
        --tls-cert) files=file ;;
        --tls-key) files=file ;;
        --tls-ca) files=file ;;
      esac
      words='--help --config --color --version --limit --tag --tags-all --category --since --before --include-superseded --json --namespace --address --timeout --token-file --tls-cert --tls-key --tls-ca' ;;
    ' update')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --content) values=- ;;
        --title) values=- ;;
        --tag) values=- ;;
        --category) values=- ;;
        --keyword) values=- ;;
        --importance) values=- ;;
        --source) files=file ;;
        --expires) values=- ;;
        --clear) values='title tags category expanded_keywords metadata source occurred_at expires_at' ;;
        --revision) values=- ;;
        --namespace|-n) values=- ;;
        --address) values=- ;;
        --timeout) values=- ;;
        --token-file) files=file ;;
        --tls-cert) files=file ;;
        --tls-key) files=file ;;
        --tls-ca) files=file ;;
      esac
      words='--help --config --color --version --content --title --tag --category --keyword --importance --sensitive --no-sensitive --source --expires --clear --revision --json --namespace --address --timeout --token-file --tls-cert --tls-key --tls-ca' ;;
    ' supersede')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --title) values=- ;;
        --tag) values=- ;;
        --category) values=- ;;
        --keyword) values=- ;;
        --importance) values=- ;;
        --source) files=file ;;
        --idempotency-key) values=- ;;
        --occurred) values=- ;;
        --expires) values=- ;;
        --namespace|-n) values=- ;;
        --address) values=- ;;
        --timeout) values=- ;;
        --token-file) files=file ;;
        --tls-cert) files=file ;;
        --tls-key) files=file ;;
        --tls-ca) files=file ;;
      esac
      words='--help --config --color --version --title --tag --category --keyword --importance --sensitive --source --idempotency-key --occurred --expires --json --namespace --address --timeout --token-file --tls-cert --tls-key --tls-ca' ;;
    ' forget')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --namespace|-n) values=- ;;
        --address) values=- ;;
        --timeout) values=- ;;
        --token-file) files=file ;;
        --tls-cert) files=file ;;
        --tls-key) files=file ;;
        --tls-ca) files=file ;;
      esac
      words='--help --config --color --version --json --namespace --address --timeout --token-file --tls-cert --tls-key --tls-ca' ;;
    ' import')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --from) values='jsonl markdown claude-memory-mcp' ;;
        --namespace|-n) values=- ;;
        --default-namespace) values=- ;;
        --table) values=- ;;
        --user) values=- ;;
        --position) files=file ;;
        --report) files=file ;;
        --address) values=- ;;
        --timeout) values=- ;;
        --token-file) files=file ;;
        --tls-cert) files=file ;;
        --tls-key) files=file ;;
        --tls-ca) files=file ;;
      esac
      [[ $values$files || $cur == -* ]] || files=file
      words='--help --config --color --version --from --namespace --default-namespace --table --user --dry-run --strict --restart --resume --no-resume --position --report --json --wait --address --timeout --token-file --tls-cert --tls-key --tls-ca' ;;
    ' export')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --output|-o) files=file ;;
        --namespace|-n) values=- ;;
        --address) values=- ;;
        --timeout) values=- ;;
        --token-file) files=file ;;
        --tls-cert) files=file ;;
        --tls-key) files=file ;;
        --tls-ca) files=file ;;
      esac
      words='--help --config --color --version --output --namespace --address --timeout --token-file --tls-cert --tls-key --tls-ca' ;;
    ' mcp')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --listen) values=- ;;
        --tokens) files=file ;;
        --oidc-issuer) values=- ;;
        --oidc-audience) values=- ;;
        --rate-limit) values=- ;;
        --write-quota) values=- ;;
        --audit) files=file ;;
        --allow-host) values=- ;;
        --max-tokens) values=- ;;
        --budget) values=- ;;
        --timeout) values=- ;;
        --log-level) values=- ;;
        --namespace|-n) values=- ;;
        --address) values=- ;;
        --token-file) files=file ;;
        --tls-cert) files=file ;;
        --tls-key) files=file ;;
        --tls-ca) files=file ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
        --embedder) values=- ;;
        --embedder-fallback) values=- ;;
        --embedder-key-file) files=file ;;
      esac
      words='--help --config --color --version --listen --allow-remote --tokens --oidc-issuer --oidc-audience --rate-limit --write-quota --audit --allow-host --any-namespace --read-only --max-tokens --budget --timeout --log-level --namespace --address --token-file --tls-cert --tls-key --tls-ca --store --sqlite --postgres --embedder --embedder-fallback --embedder-key-file' ;;
    ' hook')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --within) values=- ;;
        --max-tokens) values=- ;;
        --min-similarity) values=- ;;
        --format) values='json text' ;;
        --namespace|-n) values=- ;;
        --address) values=- ;;
        --token-file) files=file ;;
        --tls-cert) files=file ;;
        --tls-key) files=file ;;
        --tls-ca) files=file ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
        --embedder) values=- ;;
        --embedder-fallback) values=- ;;
        --embedder-key-file) files=file ;;
      esac
      words='--help --config --color --version --within --max-tokens --min-similarity --sensitive --format --why --namespace --address --token-file --tls-cert --tls-key --tls-ca --store --sqlite --postgres --embedder --embedder-fallback --embedder-key-file' ;;
    ' curation')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
      esac
      words='list show revert off --help --config --color --version' ;;
    ' curation list')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --limit) values=- ;;
        --memory) values=- ;;
        --namespace|-n) values=- ;;
        --address) values=- ;;
        --timeout) values=- ;;
        --token-file) files=file ;;
        --tls-cert) files=file ;;
        --tls-key) files=file ;;
        --tls-ca) files=file ;;
      esac
      words='--help --config --color --version --limit --memory --json --namespace --address --timeout --token-file --tls-cert --tls-key --tls-ca' ;;
    ' curation show')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --namespace|-n) values=- ;;
        --address) values=- ;;
        --timeout) values=- ;;
        --token-file) files=file ;;
        --tls-cert) files=file ;;
        --tls-key) files=file ;;
        --tls-ca) files=file ;;
      esac
      words='--help --config --color --version --json --namespace --address --timeout --token-file --tls-cert --tls-key --tls-ca' ;;
    ' curation revert')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --namespace|-n) values=- ;;
        --address) values=- ;;
        --timeout) values=- ;;
        --token-file) files=file ;;
        --tls-cert) files=file ;;
        --tls-key) files=file ;;
        --tls-ca) files=file ;;
      esac
      words='--help --config --color --version --json --namespace --address --timeout --token-file --tls-cert --tls-key --tls-ca' ;;
    ' curation off')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
      esac
      words='--help --config --color --version --json --store --sqlite --postgres' ;;
    ' namespace')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
      esac
      words='list stats rename delete --help --config --color --version' ;;
    ' namespace list')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --address) values=- ;;
        --timeout) values=- ;;
        --token-file) files=file ;;
        --tls-cert) files=file ;;
        --tls-key) files=file ;;
        --tls-ca) files=file ;;
      esac
      words='--help --config --color --version --json --address --timeout --token-file --tls-cert --tls-key --tls-ca' ;;
    ' namespace stats')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --address) values=- ;;
        --timeout) values=- ;;
        --token-file) files=file ;;
        --tls-cert) files=file ;;
        --tls-key) files=file ;;
        --tls-ca) files=file ;;
      esac
      words='--help --config --color --version --json --address --timeout --token-file --tls-cert --tls-key --tls-ca' ;;
    ' namespace rename')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --address) values=- ;;
        --timeout) values=- ;;
        --token-file) files=file ;;
        --tls-cert) files=file ;;
        --tls-key) files=file ;;
        --tls-ca) files=file ;;
      esac
      words='--help --config --color --version --json --address --timeout --token-file --tls-cert --tls-key --tls-ca' ;;
    ' namespace delete')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --address) values=- ;;
        --timeout) values=- ;;
        --token-file) files=file ;;
        --tls-cert) files=file ;;
        --tls-key) files=file ;;
        --tls-ca) files=file ;;
      esac
      words='--help --config --color --version --yes --json --address --timeout --token-file --tls-cert --tls-key --tls-ca' ;;
    ' backup')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
      esac
      [[ $values$files || $cur == -* ]] || files=file
      words='--help --config --color --version --store --sqlite --postgres --json' ;;
    ' restore')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
      esac
      [[ $values$files || $cur == -* ]] || files=file
      words='--help --config --color --version --verify --store --sqlite --postgres --json' ;;
    ' doctor')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --namespace|-n) values=- ;;
        --address) values=- ;;
        --timeout) values=- ;;
        --token-file) files=file ;;
        --tls-cert) files=file ;;
        --tls-key) files=file ;;
        --tls-ca) files=file ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
      esac
      words='--help --config --color --version --json --namespace --address --timeout --token-file --tls-cert --tls-key --tls-ca --store --sqlite --postgres' ;;
    ' graph')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
      esac
      words='show neighbors path stats export import extract trial --help --config --color --version' ;;
    ' graph show')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --namespace|-n) values=- ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
        --embedder) values=- ;;
        --embedder-fallback) values=- ;;
        --embedder-key-file) files=file ;;
      esac
      words='--help --config --color --version --json --namespace --store --sqlite --postgres --embedder --embedder-fallback --embedder-key-file' ;;
    ' graph neighbors')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --limit) values=- ;;
        --namespace|-n) values=- ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
        --embedder) values=- ;;
        --embedder-fallback) values=- ;;
        --embedder-key-file) files=file ;;
      esac
      words='--help --config --color --version --limit --json --namespace --store --sqlite --postgres --embedder --embedder-fallback --embedder-key-file' ;;
    ' graph path')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --namespace|-n) values=- ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
        --embedder) values=- ;;
        --embedder-fallback) values=- ;;
        --embedder-key-file) files=file ;;
      esac
      words='--help --config --color --version --json --namespace --store --sqlite --postgres --embedder --embedder-fallback --embedder-key-file' ;;
    ' graph stats')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --namespace|-n) values=- ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
        --embedder) values=- ;;
        --embedder-fallback) values=- ;;
        --embedder-key-file) files=file ;;
      esac
      words='--help --config --color --version --json --namespace --store --sqlite --postgres --embedder --embedder-fallback --embedder-key-file' ;;
    ' graph export')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --format) values='graphml dot triples' ;;
        --namespace|-n) values=- ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
        --embedder) values=- ;;
        --embedder-fallback) values=- ;;
        --embedder-key-file) files=file ;;
      esac
      words='--help --config --color --version --format --namespace --store --sqlite --postgres --embedder --embedder-fallback --embedder-key-file' ;;
    ' graph import')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --namespace|-n) values=- ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
        --embedder) values=- ;;
        --embedder-fallback) values=- ;;
        --embedder-key-file) files=file ;;
      esac
      [[ $values$files || $cur == -* ]] || files=file
      words='--help --config --color --version --single --json --namespace --store --sqlite --postgres --embedder --embedder-fallback --embedder-key-file' ;;
    ' graph extract')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --namespace|-n) values=- ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
        --embedder) values=- ;;
        --embedder-fallback) values=- ;;
        --embedder-key-file) files=file ;;
      esac
      words='--help --config --color --version --off --json --namespace --store --sqlite --postgres --embedder --embedder-fallback --embedder-key-file' ;;
    ' graph trial')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --data) files=dir ;;
        --sets) values=- ;;
        --single) values=- ;;
        --store) values='sqlite postgres' ;;
        --postgres) values=- ;;
        --out) files=dir ;;
        --limit) values=- ;;
        --embedder) values=- ;;
        --embedder-fallback) values=- ;;
        --embedder-key-file) files=file ;;
      esac
      words='--help --config --color --version --data --sets --single --store --postgres --out --limit --embedder --embedder-fallback --embedder-key-file' ;;
    ' queue')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
      esac
      words='list retry --help --config --color --version' ;;
    ' queue list')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --index) values=- ;;
        --namespace|-n) values=- ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
        --limit) values=- ;;
      esac
      words='--help --config --color --version --index --namespace --store --sqlite --postgres --dead --limit --json' ;;
    ' queue retry')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --index) values=- ;;
        --namespace|-n) values=- ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
      esac
      words='--help --config --color --version --json --index --namespace --store --sqlite --postgres' ;;
    ' reembed')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --max-rate) values=- ;;
        --embedder) values=- ;;
        --embedder-fallback) values=- ;;
        --embedder-key-file) files=file ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
      esac
      words='--help --config --color --version --json --max-rate --embedder --embedder-fallback --embedder-key-file --store --sqlite --postgres' ;;
    ' models')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
      esac
      words='list prune cancel embed-sensitive --help --config --color --version' ;;
    ' models list')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
      esac
      words='--help --config --color --version --json --store --sqlite --postgres' ;;
    ' models prune')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
      esac
      words='--help --config --color --version --json --store --sqlite --postgres' ;;
    ' models cancel')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
      esac
      words='--help --config --color --version --json --store --sqlite --postgres' ;;
    ' models embed-sensitive')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
      esac
      [[ $values$files || $cur == -* ]] || values='on off'
      words='--help --config --color --version --json --store --sqlite --postgres' ;;
    ' lexical')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
      esac
      words='settings reindex textsearch --help --config --color --version' ;;
    ' lexical settings')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --language) values=- ;;
        --k1) values=- ;;
        --b) values=- ;;
        --scorer) values='bm25 ts_rank textsearch default' ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
      esac
      words='--help --config --color --version --language --k1 --b --prefix --no-prefix --scorer --store --sqlite --postgres --json' ;;
    ' lexical reindex')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
      esac
      words='--help --config --color --version --store --sqlite --postgres' ;;
    ' lexical textsearch')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
      esac
      words='--help --config --color --version --drop --store --sqlite --postgres' ;;
    ' migrate')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
      esac
      words='up status plan --help --config --color --version' ;;
    ' migrate up')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
      esac
      words='--help --config --color --version --json --store --sqlite --postgres' ;;
    ' migrate status')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
      esac
      words='--help --config --color --version --json --store --sqlite --postgres' ;;
    ' migrate plan')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --store) values='sqlite postgres' ;;
        --sqlite) files=file ;;
        --postgres) values=- ;;
      esac
      words='--help --config --color --version --json --store --sqlite --postgres' ;;
    ' demo')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --embedder) values=- ;;
        --embedder-fallback) values=- ;;
        --embedder-key-file) files=file ;;
      esac
      words='--help --config --color --version --embedder --embedder-fallback --embedder-key-file' ;;
    ' eval')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --data) files=dir ;;
        --sets) values=- ;;
        --store) values='sqlite postgres' ;;
        --postgres) values=- ;;
        --gateway) values=- ;;
        --out) files=dir ;;
        --configs) values=- ;;
        --scorer) values='bm25 ts_rank textsearch' ;;
        --embedder) values=- ;;
        --embedder-fallback) values=- ;;
        --embedder-key-file) files=file ;;
        --compare) files=dir ;;
        --plan) files=file ;;
        --report) files=dir ;;
        --revision) values=- ;;
        --limit) values=- ;;
        --concurrency) values=- ;;
      esac
      words='--help --config --color --version --data --sets --store --postgres --gateway --out --configs --scorer --embedder --embedder-fallback --embedder-key-file --compare --plan --report --revision --limit --concurrency' ;;
    ' budget')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --admin) values=- ;;
        --otlp) files=file ;;
        --jaeger) values=- ;;
        --tempo) values=- ;;
        --header) values=- ;;
        --service) values=- ;;
        --last) values=- ;;
        --limit) values=- ;;
        --budgets) values=- ;;
        --leg) values=- ;;
        --quality) files=file ;;
      esac
      words='--help --config --color --version --admin --otlp --jaeger --tempo --header --service --last --limit --budgets --leg --quality --json --html --svg' ;;
    ' token')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
      esac
      words='create list revoke --help --config --color --version' ;;
    ' token create')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --namespace|-n) values=- ;;
        --scope) values='recall read write admin' ;;
        --expires) values=- ;;
        --rate) values=- ;;
        --quota) values=- ;;
        --tokens) files=file ;;
      esac
      words='--help --config --color --version --namespace --scope --expires --rate --quota --tokens --json' ;;
    ' token list')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --tokens) files=file ;;
      esac
      words='--help --config --color --version --tokens --json' ;;
    ' token revoke')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
        --tokens) files=file ;;
      esac
      words='--help --config --color --version --tokens --json' ;;
    ' config')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
      esac
      words='show --help --config --color --version' ;;
    ' config show')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
      esac
      words='--help --config --color --version --json' ;;
    ' completion')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
      esac
      [[ $values$files || $cur == -* ]] || values='bash zsh fish'
      words='--help --config --color --version' ;;
    ' man')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
      esac
      words='--help --config --color --version --markdown' ;;
    ' version')
      case "$prev" in
        --config) files=file ;;
        --color) values='auto always never' ;;
      esac
      words='--help --config --color --version' ;;
  esac
  case "$files" in
    file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$cur")); return ;;
    dir) compopt -o filenames; COMPREPLY=($(compgen -d -- "$cur")); return ;;
  esac
  if [[ $values == - ]]; then COMPREPLY=(); return; fi
  COMPREPLY=($(compgen -W "${values:-$words}" -- "$cur"))
}

complete -F _triskele triskele

#compdef triskele
# Completion of triskele for zsh.

_triskele() {
  local at=
  local -i n=1 i
  for ((i = 2; i < CURRENT; i++)); do
    case "$at $words[i]" in
      ' up'|' remember'|' recall'|' get'|' list'|' update'|' supersede'|' forget'|' import'|' export'|' mcp'|' hook'|' curation'|' curation list'|' curation show'|' curation revert'|' curation off'|' namespace'|' namespace list'|' namespace stats'|' namespace rename'|' namespace delete'|' backup'|' restore'|' doctor'|' graph'|' graph show'|' graph neighbors'|' graph path'|' graph stats'|' graph export'|' graph import'|' graph extract'|' graph trial'|' queue'|' queue list'|' queue retry'|' reembed'|' models'|' models list'|' models prune'|' models cancel'|' models embed-sensitive'|' lexical'|' lexical settings'|' lexical reindex'|' lexical textsearch'|' migrate'|' migrate up'|' migrate status'|' migrate plan'|' demo'|' eval'|' budget'|' token'|' token create'|' token list'|' token revoke'|' config'|' config show'|' completion'|' man'|' version') at+=" $words[i]"; n=i ;;
    esac
  done
  # what follows the command is completed as if the command were the program
  words=("${(@)words[n,-1]}")
  CURRENT=$((CURRENT - n + 1))
  case "$at" in
    '')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        ':command:((up\:"Run all services in one process on one database" remember\:"Store a memory" recall\:"Find the memories that matter for a query" get\:"Show memories by id" list\:"List memories, newest first" update\:"Change a memory" supersede\:"Replace a memory by a newer one and keep the old one on record" forget\:"Remove memories and everything derived from them" import\:"Store memories from a JSONL file, a folder of notes or claude-memory-mcp; running it again stores nothing twice" export\:"Write every memory of a namespace as JSONL" mcp\:"Offer the memories to an agent over the Model Context Protocol" hook\:"Print what is known about a prompt, for an agent'\''s hook" curation\:"See and undo what the curator'\''s model decided about new memories" namespace\:"List, count, rename or delete namespaces" backup\:"Write all namespaces of a database into a file with a checksum, while it is in use" restore\:"Verify a backup and store what it holds" doctor\:"Check that everything works" graph\:"Look into the graph of a namespace, and add facts to it, in the database itself" queue\:"Look after what the indexes have yet to catch up with, in the database itself" reembed\:"Change the embedding model of a database, without downtime" models\:"List a database'\''s embedding models, and care for them" lexical\:"Care for the index of words" migrate\:"Bring a database to this program'\''s schema, or show how far it is and what is to do" demo\:"Show what recall does, on a temporary database" eval\:"Measure recall on a data set with known answers" budget\:"Say from recorded traces which hop spends the time of recalls, and what another budget would have dropped and cost" token\:"Make, list and revoke the tokens that callers show to a gateway" config\:"Show the settings, and where each comes from" completion\:"Print the completion script of a shell" man\:"Print the manual page" version\:"Print the version"))' ;;
    ' up')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--listen=[Address to serve on]:listen:' \
        '--allow-remote[Serve on an address other machines can reach, although callers are not known or calls not encrypted]' \
        '--tls-cert=[PEM file of this program'\''s certificate and its chain, to show to others]:tls-cert:_files' \
        '--tls-key=[PEM file of the certificate'\''s private key]:tls-key:_files' \
        '--tls-ca=[PEM file of the authorities that a peer'\''s certificate must be from, or "system"; it turns TLS on for calls]:tls-ca:_files' \
        '*--tls-clients=[With --tls-cert\: DNS names and URIs, one of which a caller'\''s certificate must have]:tls-clients:' \
        '--tokens=[JSON file of tokens, as "triskele token" writes it\: callers must show one]:tokens:_files' \
        '--oidc-issuer=[Accept tokens (JWT) that this OpenID Connect issuer signed, with scopes such as triskele.recall in "scope" and a list of namespaces in "triskele_namespaces"]:oidc-issuer:' \
        '--oidc-audience=[Audience that such a token must be for]:oidc-audience:' \
        '--rate-limit=[Calls a second that a token may make in one namespace, unless it has a rate of its own; 0 is no limit]:rate-limit:' \
        '--write-quota=[Memories a day that a token may store in one namespace, unless it has a quota of its own; 0 is no limit]:write-quota:' \
        '--audit=[Append a line of JSON for every write and every refusal to this file, or to standard error if it is "-"]:audit:_files' \
        '--http[Serve HTTP with JSON and gRPC-Web, too, on the same address]' \
        '--no-http[Serve HTTP with JSON and gRPC-Web, too, on the same address]' \
        '*--http-allow-origin=[Let pages of this origin call over HTTP, https\://app.example.com for instance; repeat it for others]:http-allow-origin:' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        '--embedder=[Embedder of the dense leg\: builtin (a trained English model inside the program, the default), hashed (spelling only; hashed?dims=N for 16 to 128 dimensions), model2vec\:FOLDER, onnx\:FOLDER?library=FILE (a transformer inside the process, in builds with the tag onnx), openai\:URL#MODEL?dims=N (OpenAI, Ollama, llama.cpp, vLLM), tei\:URL#MODEL?dims=N, voyage\:MODEL?dims=N, cohere\:MODEL?dims=N]:embedder:' \
        '--embedder-fallback=[Embedder of the same model to ask for a query'\''s vector when the first fails]:embedder-fallback:' \
        '--embedder-key-file=[File with the key for the embedder'\''s server; else TRISKELE_EMBEDDER_KEY or the provider'\''s own variable is read]:embedder-key-file:_files' \
        '--graph-traversal=[How the graph leg searches when a request doesn'\''t say\: pagerank or hop-decay]:graph-traversal:(pagerank hop-decay)' \
        '--graph-max-arcs=[How many mentions, facts and links pagerank keeps in memory, of all namespaces together; a million take about 100 MB]:graph-max-arcs:' \
        '--scorer=[How the lexical leg ranks when neither the request nor the namespace says\: bm25, ts_rank, or textsearch, which needs the extension pg_textsearch and triskele lexical textsearch]:scorer:(bm25 ts_rank textsearch)' \
        '--or-broaden-min-rank=[Least ts_rank, 0 to 1, of a memory with only some of a query'\''s words]:or-broaden-min-rank:' \
        '--max-postings=[Occurrences of words that a search by BM25 may read on PostgreSQL, at least 1000]:max-postings:' \
        '--curator-url=[Let a chat model curate new memories\: base URL of an OpenAI-compatible server, like http\://127.0.0.1\:11434/v1]:curator-url:' \
        '--curator-model=[The curator'\''s model, as its server calls it]:curator-model:' \
        '--curator-key-file=[File that holds the server'\''s key; TRISKELE_CURATOR_KEY may hold it instead]:curator-key-file:_files' \
        '--curator-similarity=[Ask only about memories with at least this cosine similarity to the new one; 0, the default, asks about the nearest whatever theirs is]:curator-similarity:' \
        '--curator-per-minute=[Requests a minute at most, 30 if not given]:curator-per-minute:' \
        '--curator-max-input=[Bytes of memory texts in a request at most, 16384 if not given]:curator-max-input:' \
        '--curator-timeout=[Give up on a request after this long, 30s if not given, 90s at most]:curator-timeout:' \
        '--extractor-url=[Let a chat model read facts out of memories for the graph\: base URL of an OpenAI-compatible server, like http\://127.0.0.1\:11434/v1]:extractor-url:' \
        '--extractor-model=[The extractor'\''s model, as its server calls it]:extractor-model:' \
        '--extractor-key-file=[File that holds the server'\''s key; TRISKELE_EXTRACTOR_KEY may hold it instead]:extractor-key-file:_files' \
        '--extractor-batch=[Memories in a request at most, 8 if not given, 64 at most]:extractor-batch:' \
        '--extractor-per-minute=[Requests a minute at most, 30 if not given]:extractor-per-minute:' \
        '--extractor-tokens-per-hour=[Tokens an hour at most, 200000 if not given, of questions and answers as the server counts them]:extractor-tokens-per-hour:' \
        '--extractor-max-input=[Bytes of memory texts in a request at most, 16384 if not given; of a longer memory its beginning is read]:extractor-max-input:' \
        '--extractor-timeout=[Give up on a request after this long, 30s if not given, 90s at most]:extractor-timeout:' \
        '--vector-memory=[MiB of memory for vectors]:vector-memory:' \
        '--sweep-after=[Remove memories this long after they expired]:sweep-after:' \
        '--sweep-every=[Look for them this often; 0 never removes any]:sweep-every:' \
        '--graph-seeded[Search the graph after the other legs, starting from what they found, instead of beside them]' \
        '*--policies=[JSON file of recall policies by namespace]:policies:_files' \
        '--reranker=[Reranker that recalls may ask for\: cohere\:MODEL, jina\:\[URL#\]MODEL (llama.cpp, vLLM), voyage\:MODEL or tei\:URL]:reranker:' \
        '--reranker-key-file=[File with the key for the reranker'\''s server; else TRISKELE_RERANKER_KEY or the provider'\''s own variable is read]:reranker-key-file:_files' \
        '--reranker-top=[How many of the best memories it puts in order, 2 to 100]:reranker-top:' \
        '--reranker-cap=[At most this long; 0 for what the budget leaves]:reranker-cap:' \
        '--reranker-min=[With less time it is not asked]:reranker-min:' \
        '--reranker-limit=[Requests at a time, 1 or more; others wait]:reranker-limit:' \
        '--reranker-max-bytes=[Bytes of a text that are sent]:reranker-max-bytes:' \
        '--fusion=[How the legs'\'' lists are fused\: rrf, convex or dbsf]:fusion:(rrf convex dbsf)' \
        '--k=[Rank constant of rrf]:k:' \
        '--alpha=[With convex\: weight of the dense leg, 0 to 1; the lexical leg gets the rest]:alpha:' \
        '--cache-bytes=[Memory for answers, which are given again while nothing in their namespaces has changed; 0 remembers none]:cache-bytes:' \
        '--cache-ttl=[No answer is remembered for longer]:cache-ttl:' \
        '--trace-queries[Put the texts of queries into traces, which hold no text else]' \
        '--one-statement[Answer a recall with one SQL statement where that can be done\: lexical (ts_rank), dense (all vectors) and graph (hop decay), fused by rrf]' \
        '--admin=[Address to serve metrics, health and pages for operators on, over HTTP; "off" for none]:admin:' \
        '--admin-allow-remote[Serve operators on an address other machines can reach\: anybody there can see metrics and pages]' \
        '--trace-slow=[Export the trace of a recall that fails, is degraded or takes at least this long, whatever OTEL_TRACES_SAMPLER leaves out; 0 leaves it to the sampler]:trace-slow:' \
        '--log-level=[Least level to log\: debug, info, warn or error]:log-level:' \
        && return ;;
    ' remember')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--title=[Title]:title:' \
        '*--tag=[Tags]:tag:' \
        '--category=[Category]:category:' \
        '*--keyword=[Words the text lacks but a reader might search for]:keyword:' \
        '--importance=[How much it matters, 0 to 1; 0.5 if not given]:importance:' \
        '--sensitive[Find it by its words only\: never embed or link it, never send it to a model]' \
        '--source=[Where it comes from]:source:_files' \
        '--idempotency-key=[Makes a repeated store harmless]:idempotency-key:' \
        '--occurred=[When the thing happened\: a date (UTC), a time, or an age such as 36h, 7d, 2w]:occurred:' \
        '--expires=[No longer recalled from then on\: a date (UTC), a time, or a span from now such as 36h, 7d, 2w]:expires:' \
        '--json[Print the server'\''s answer as JSON]' \
        '--namespace=[Namespace]:namespace:' \
        '-n[Namespace]:namespace:' \
        '--address=[Address of the gateway, 127.0.0.1\:7400 if not given]:address:' \
        '--timeout=[Give up on a call after this long]:timeout:' \
        '--token-file=[File with the token to show to the gateway; otherwise that in TRISKELE_TOKEN, if any]:token-file:_files' \
        '--tls-cert=[PEM file of this program'\''s certificate and its chain, to show to others]:tls-cert:_files' \
        '--tls-key=[PEM file of the certificate'\''s private key]:tls-key:_files' \
        '--tls-ca=[PEM file of the authorities that a peer'\''s certificate must be from, or "system"; it turns TLS on for calls]:tls-ca:_files' \
        ':text:' \
        && return ;;
    ' recall')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '*--namespace=[Namespaces to search]:namespace:' \
        '*-n[Namespaces to search]:namespace:' \
        '--limit=[How many memories at most; 10 if not given, 50 with --max-tokens]:limit:' \
        '--max-tokens=[Print the best memories as text for a model'\''s prompt that has at most so many tokens, near-duplicates once]:max-tokens:' \
        '--sort=[Order\: relevance, importance or recency]:sort:(relevance importance recency)' \
        '*--tag=[Only memories with one of these tags]:tag:' \
        '*--tags-all=[Only memories with all of these tags]:tags-all:' \
        '*--category=[Only memories of one of these categories]:category:' \
        '--since=[Only memories created from then on\: a date (UTC), a time, or an age such as 36h, 7d, 2w]:since:' \
        '--before=[Only memories created before then]:before:' \
        '--include-superseded[Also memories that have been superseded]' \
        '--as-of=[What the graph knew to hold then, instead of now\: a date (UTC), a time, or an age such as 36h, 7d, 2w]:as-of:' \
        '--budget=[Time the gateway may take; a leg that is later is left out]:budget:' \
        '*--no-leg=[Legs not to ask]:no-leg:' \
        '*--at-least=[Wait, within the budget, for the indexes to know of the write that returned this revision token]:at-least:' \
        '*--require=[Legs without whose answer the call fails]:require:' \
        '--on-error=[What to do when a leg fails\: answer without it, or fail; the namespace'\''s policy if not given]:on-error:(answer fail)' \
        '--on-timeout=[What to do when a leg is late\: answer without it, or fail; the namespace'\''s policy if not given]:on-timeout:(answer fail)' \
        '--quorum=[Answer as soon as so many legs have, if the others cannot change which memories are found]:quorum:' \
        '*--weight=[Weight of a leg]:weight:' \
        '*--quota=[How many of the memories are to be from a leg at least]:quota:' \
        '--fusion=[How to merge the legs'\'' lists\: rrf, convex or dbsf; the namespace'\''s policy or rrf if not given]:fusion:(rrf convex dbsf)' \
        '--k=[Rank constant of rrf]:k:' \
        '--alpha=[Weight of the dense leg in convex, 0 to 1; the lexical leg gets the rest]:alpha:' \
        '--rerank[Have the gateway'\''s reranker put the best memories into a new order]' \
        '--diversity=[Leave out a memory whose text resembles that of a better one at least this much, 0 (off) to 1; 0.8 or so finds what says the same]:diversity:' \
        '--fresh[Search anew, even if the gateway remembers the answer]' \
        '--ids-only[Leave the contents out]' \
        '--explain[Show how each score came about]' \
        '--trace[Show where the time of this call went]' \
        '--json[Print the server'\''s answer as JSON]' \
        '--address=[Address of the gateway, 127.0.0.1\:7400 if not given]:address:' \
        '--timeout=[Give up on a call after this long]:timeout:' \
        '--token-file=[File with the token to show to the gateway; otherwise that in TRISKELE_TOKEN, if any]:token-file:_files' \
        '--tls-cert=[PEM file of this program'\''s certificate and its chain, to show to others]:tls-cert:_files' \
        '--tls-key=[PEM file of the certificate'\''s private key]:tls-key:_files' \
        '--tls-ca=[PEM file of the authorities that a peer'\''s certificate must be from, or "system"; it turns TLS on for calls]:tls-ca:_files' \
        ':query:' \
        && return ;;
    ' get')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print the server'\''s answer as JSON]' \
        '--namespace=[Namespace]:namespace:' \
        '-n[Namespace]:namespace:' \
        '--address=[Address of the gateway, 127.0.0.1\:7400 if not given]:address:' \
        '--timeout=[Give up on a call after this long]:timeout:' \
        '--token-file=[File with the token to show to the gateway; otherwise that in TRISKELE_TOKEN, if any]:token-file:_files' \
        '--tls-cert=[PEM file of this program'\''s certificate and its chain, to show to others]:tls-cert:_files' \
        '--tls-key=[PEM file of the certificate'\''s private key]:tls-key:_files' \
        '--tls-ca=[PEM file of the authorities that a peer'\''s certificate must be from, or "system"; it turns TLS on for calls]:tls-ca:_files' \
        '*:id:' \
        && return ;;
    ' list')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--limit=[How many at most; 0 lists all]:limit:' \
        '*--tag=[Only memories with one of these tags]:tag:' \
        '*--tags-all=[Only memories with all of these tags]:tags-all:' \
        '*--category=[Only memories of one of these categories]:category:' \
        '--since=[Only memories created from then on\: a date (UTC), a time, or an age such as 36h, 7d, 2w]:since:' \
        '--before=[Only memories created before then]:before:' \
        '--include-superseded[Also memories that have been superseded]' \
        '--json[Print each memory as a line of JSON]' \
        '--namespace=[Namespace]:namespace:' \
        '-n[Namespace]:namespace:' \
        '--address=[Address of the gateway, 127.0.0.1\:7400 if not given]:address:' \
        '--timeout=[Give up on a call after this long]:timeout:' \
        '--token-file=[File with the token to show to the gateway; otherwise that in TRISKELE_TOKEN, if any]:token-file:_files' \
        '--tls-cert=[PEM file of this program'\''s certificate and its chain, to show to others]:tls-cert:_files' \
        '--tls-key=[PEM file of the certificate'\''s private key]:tls-key:_files' \
        '--tls-ca=[PEM file of the authorities that a peer'\''s certificate must be from, or "system"; it turns TLS on for calls]:tls-ca:_files' \
        && return ;;
    ' update')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--content=[New text, or - to read it from standard input]:content:' \
        '--title=[New title]:title:' \
        '*--tag=[Tags that replace the present ones]:tag:' \
        '--category=[New category]:category:' \
        '*--keyword=[Search words that replace the present ones]:keyword:' \
        '--importance=[How much it matters, 0 to 1]:importance:' \
        '--sensitive[Find it by its words only]' \
        '--no-sensitive[Find it by its words only]' \
        '--source=[Where it comes from]:source:_files' \
        '--expires=[No longer recalled from then on\: a date (UTC), a time, or a span from now such as 36h, 7d, 2w]:expires:' \
        '*--clear=[Empty these fields\: title, tags, category, expanded_keywords, metadata, source, occurred_at, expires_at]:clear:(title tags category expanded_keywords metadata source occurred_at expires_at)' \
        '--revision=[Change nothing unless the memory still has this revision]:revision:' \
        '--json[Print the server'\''s answer as JSON]' \
        '--namespace=[Namespace]:namespace:' \
        '-n[Namespace]:namespace:' \
        '--address=[Address of the gateway, 127.0.0.1\:7400 if not given]:address:' \
        '--timeout=[Give up on a call after this long]:timeout:' \
        '--token-file=[File with the token to show to the gateway; otherwise that in TRISKELE_TOKEN, if any]:token-file:_files' \
        '--tls-cert=[PEM file of this program'\''s certificate and its chain, to show to others]:tls-cert:_files' \
        '--tls-key=[PEM file of the certificate'\''s private key]:tls-key:_files' \
        '--tls-ca=[PEM file of the authorities that a peer'\''s certificate must be from, or "system"; it turns TLS on for calls]:tls-ca:_files' \
        ':id:' \
        && return ;;
    ' supersede')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--title=[Title]:title:' \
        '*--tag=[Tags]:tag:' \
        '--category=[Category]:category:' \
        '*--keyword=[Words the text lacks but a reader might search for]:keyword:' \
        '--importance=[How much it matters, 0 to 1; 0.5 if not given]:importance:' \
        '--sensitive[Find it by its words only\: never embed or link it, never send it to a model]' \
        '--source=[Where it comes from]:source:_files' \
        '--idempotency-key=[Makes a repeated store harmless]:idempotency-key:' \
        '--occurred=[When the thing happened\: a date (UTC), a time, or an age such as 36h, 7d, 2w]:occurred:' \
        '--expires=[No longer recalled from then on\: a date (UTC), a time, or a span from now such as 36h, 7d, 2w]:expires:' \
        '--json[Print the server'\''s answer as JSON]' \
        '--namespace=[Namespace]:namespace:' \
        '-n[Namespace]:namespace:' \
        '--address=[Address of the gateway, 127.0.0.1\:7400 if not given]:address:' \
        '--timeout=[Give up on a call after this long]:timeout:' \
        '--token-file=[File with the token to show to the gateway; otherwise that in TRISKELE_TOKEN, if any]:token-file:_files' \
        '--tls-cert=[PEM file of this program'\''s certificate and its chain, to show to others]:tls-cert:_files' \
        '--tls-key=[PEM file of the certificate'\''s private key]:tls-key:_files' \
        '--tls-ca=[PEM file of the authorities that a peer'\''s certificate must be from, or "system"; it turns TLS on for calls]:tls-ca:_files' \
        ':id:' \
        ':text:' \
        && return ;;
    ' forget')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print the server'\''s answer as JSON]' \
        '--namespace=[Namespace]:namespace:' \
        '-n[Namespace]:namespace:' \
        '--address=[Address of the gateway, 127.0.0.1\:7400 if not given]:address:' \
        '--timeout=[Give up on a call after this long]:timeout:' \
        '--token-file=[File with the token to show to the gateway; otherwise that in TRISKELE_TOKEN, if any]:token-file:_files' \
        '--tls-cert=[PEM file of this program'\''s certificate and its chain, to show to others]:tls-cert:_files' \
        '--tls-key=[PEM file of the certificate'\''s private key]:tls-key:_files' \
        '--tls-ca=[PEM file of the authorities that a peer'\''s certificate must be from, or "system"; it turns TLS on for calls]:tls-ca:_files' \
        '*:id:' \
        && return ;;
    ' import')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--from=[What kind of source it is\: jsonl, a file with one memory in the API'\''s JSON form on each line; markdown, a folder of notes; claude-memory-mcp, its PostgreSQL URL or SQLite file]:from:(jsonl markdown claude-memory-mcp)' \
        '--namespace=[Put every memory into this namespace, whatever its line says]:namespace:' \
        '-n[Put every memory into this namespace, whatever its line says]:namespace:' \
        '--default-namespace=[Namespace of memories whose line names none]:default-namespace:' \
        '--table=[Table to read from claude-memory-mcp'\''s database]:table:' \
        '--user=[Import the memories of this user of claude-memory-mcp only]:user:' \
        '--dry-run[Say what an import would do, and store nothing]' \
        '--strict[Stop at the first thing that cannot be imported; what comes before it is stored]' \
        '--restart[Begin at the start, even if an import of this source broke off]' \
        '--resume[Keep the position while importing, and go on from it if an import of this source broke off]' \
        '--no-resume[Keep the position while importing, and go on from it if an import of this source broke off]' \
        '--position=[Where to keep the position; a file in the user'\''s state folder if not given]:position:_files' \
        '--report=[Write a report to this file, as JSON, with everything that was skipped]:report:_files' \
        '--json[Print that report instead of a summary]' \
        '--wait[Return only when all indexes have caught up]' \
        '--address=[Address of the gateway, 127.0.0.1\:7400 if not given]:address:' \
        '--timeout=[Give up on a call after this long]:timeout:' \
        '--token-file=[File with the token to show to the gateway; otherwise that in TRISKELE_TOKEN, if any]:token-file:_files' \
        '--tls-cert=[PEM file of this program'\''s certificate and its chain, to show to others]:tls-cert:_files' \
        '--tls-key=[PEM file of the certificate'\''s private key]:tls-key:_files' \
        '--tls-ca=[PEM file of the authorities that a peer'\''s certificate must be from, or "system"; it turns TLS on for calls]:tls-ca:_files' \
        ':source:_files' \
        && return ;;
    ' export')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--output=[File to write, complete or not at all; standard output if not given]:output:_files' \
        '-o[File to write, complete or not at all; standard output if not given]:output:_files' \
        '--namespace=[Namespace]:namespace:' \
        '-n[Namespace]:namespace:' \
        '--address=[Address of the gateway, 127.0.0.1\:7400 if not given]:address:' \
        '--timeout=[Give up on a call after this long]:timeout:' \
        '--token-file=[File with the token to show to the gateway; otherwise that in TRISKELE_TOKEN, if any]:token-file:_files' \
        '--tls-cert=[PEM file of this program'\''s certificate and its chain, to show to others]:tls-cert:_files' \
        '--tls-key=[PEM file of the certificate'\''s private key]:tls-key:_files' \
        '--tls-ca=[PEM file of the authorities that a peer'\''s certificate must be from, or "system"; it turns TLS on for calls]:tls-ca:_files' \
        && return ;;
    ' mcp')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--listen=[Serve streamable HTTP on this address, at /mcp, instead of standard input and output]:listen:' \
        '--allow-remote[Serve on an address other machines can reach, although callers are not known or requests not encrypted]' \
        '--tokens=[JSON file of tokens, as "triskele token" writes it\: callers must show one]:tokens:_files' \
        '--oidc-issuer=[Accept tokens (JWT) that this OpenID Connect issuer signed, with scopes such as triskele.recall in "scope" and a list of namespaces in "triskele_namespaces"]:oidc-issuer:' \
        '--oidc-audience=[Audience that such a token must be for]:oidc-audience:' \
        '--rate-limit=[Calls a second that a token may make in one namespace, unless it has a rate of its own; 0 is no limit]:rate-limit:' \
        '--write-quota=[Memories a day that a token may store in one namespace, unless it has a quota of its own; 0 is no limit]:write-quota:' \
        '--audit=[Append a line of JSON for every write and every refusal to this file, or to standard error if it is "-"]:audit:_files' \
        '*--allow-host=[Names under which clients may ask for this server over HTTP, beside localhost and addresses]:allow-host:' \
        '--any-namespace[Let the agent work on other namespaces than this one]' \
        '--read-only[Offer recall and list only]' \
        '--max-tokens=[How long an answer to recall is at most if the agent does not say, in estimated tokens]:max-tokens:' \
        '--budget=[Time a recall may take; a leg that is later is left out]:budget:' \
        '--timeout=[Give up on a call after this long]:timeout:' \
        '--log-level=[Least level to log, to standard error\: debug, info, warn or error]:log-level:' \
        '--namespace=[Namespace]:namespace:' \
        '-n[Namespace]:namespace:' \
        '--address=[Address of a gateway to ask]:address:' \
        '--token-file=[File with the token to show to the gateway; otherwise that in TRISKELE_TOKEN, if any]:token-file:_files' \
        '--tls-cert=[PEM file of this program'\''s certificate and its chain, to show to others]:tls-cert:_files' \
        '--tls-key=[PEM file of the certificate'\''s private key]:tls-key:_files' \
        '--tls-ca=[PEM file of the authorities that a peer'\''s certificate must be from, or "system"; it turns TLS on for calls]:tls-ca:_files' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        '--embedder=[Embedder of the dense leg\: builtin (a trained English model inside the program, the default), hashed (spelling only; hashed?dims=N for 16 to 128 dimensions), model2vec\:FOLDER, onnx\:FOLDER?library=FILE (a transformer inside the process, in builds with the tag onnx), openai\:URL#MODEL?dims=N (OpenAI, Ollama, llama.cpp, vLLM), tei\:URL#MODEL?dims=N, voyage\:MODEL?dims=N, cohere\:MODEL?dims=N]:embedder:' \
        '--embedder-fallback=[Embedder of the same model to ask for a query'\''s vector when the first fails]:embedder-fallback:' \
        '--embedder-key-file=[File with the key for the embedder'\''s server; else TRISKELE_EMBEDDER_KEY or the provider'\''s own variable is read]:embedder-key-file:_files' \
        && return ;;
    ' hook')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--within=[Be gone this long after the start, whatever happens]:within:' \
        '--max-tokens=[Print at most so many tokens, as they are estimated]:max-tokens:' \
        '--min-similarity=[Least cosine of a memory to the prompt, unless they have words in common]:min-similarity:' \
        '--sensitive[Also print sensitive memories]' \
        '--format=[What to print\: json, in the form of the agent that asks, or text]:format:(json text)' \
        '--why[Say on standard error why nothing is printed]' \
        '*--namespace=[Namespaces to search]:namespace:' \
        '*-n[Namespaces to search]:namespace:' \
        '--address=[Address of a gateway to ask]:address:' \
        '--token-file=[File with the token to show to the gateway; otherwise that in TRISKELE_TOKEN, if any]:token-file:_files' \
        '--tls-cert=[PEM file of this program'\''s certificate and its chain, to show to others]:tls-cert:_files' \
        '--tls-key=[PEM file of the certificate'\''s private key]:tls-key:_files' \
        '--tls-ca=[PEM file of the authorities that a peer'\''s certificate must be from, or "system"; it turns TLS on for calls]:tls-ca:_files' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        '--embedder=[Embedder of the dense leg\: builtin (a trained English model inside the program, the default), hashed (spelling only; hashed?dims=N for 16 to 128 dimensions), model2vec\:FOLDER, onnx\:FOLDER?library=FILE (a transformer inside the process, in builds with the tag onnx), openai\:URL#MODEL?dims=N (OpenAI, Ollama, llama.cpp, vLLM), tei\:URL#MODEL?dims=N, voyage\:MODEL?dims=N, cohere\:MODEL?dims=N]:embedder:' \
        '--embedder-fallback=[Embedder of the same model to ask for a query'\''s vector when the first fails]:embedder-fallback:' \
        '--embedder-key-file=[File with the key for the embedder'\''s server; else TRISKELE_EMBEDDER_KEY or the provider'\''s own variable is read]:embedder-key-file:_files' \
        && return ;;
    ' curation')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        ':command:((list\:"List what the curator decided, newest first" show\:"Show what the curator decided about a memory, with the texts concerned" revert\:"Undo a decision\: what it changed is as it was before, and is not judged again" off\:"Switch curation off in a database and drop what waits for it"))' ;;
    ' curation list')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--limit=[How many at most; 0 lists all]:limit:' \
        '--memory=[Only decisions about this memory]:memory:' \
        '--json[Print each decision as a line of JSON]' \
        '--namespace=[Namespace]:namespace:' \
        '-n[Namespace]:namespace:' \
        '--address=[Address of the gateway, 127.0.0.1\:7400 if not given]:address:' \
        '--timeout=[Give up on a call after this long]:timeout:' \
        '--token-file=[File with the token to show to the gateway; otherwise that in TRISKELE_TOKEN, if any]:token-file:_files' \
        '--tls-cert=[PEM file of this program'\''s certificate and its chain, to show to others]:tls-cert:_files' \
        '--tls-key=[PEM file of the certificate'\''s private key]:tls-key:_files' \
        '--tls-ca=[PEM file of the authorities that a peer'\''s certificate must be from, or "system"; it turns TLS on for calls]:tls-ca:_files' \
        && return ;;
    ' curation show')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print each decision, with the memories, as a line of JSON]' \
        '--namespace=[Namespace]:namespace:' \
        '-n[Namespace]:namespace:' \
        '--address=[Address of the gateway, 127.0.0.1\:7400 if not given]:address:' \
        '--timeout=[Give up on a call after this long]:timeout:' \
        '--token-file=[File with the token to show to the gateway; otherwise that in TRISKELE_TOKEN, if any]:token-file:_files' \
        '--tls-cert=[PEM file of this program'\''s certificate and its chain, to show to others]:tls-cert:_files' \
        '--tls-key=[PEM file of the certificate'\''s private key]:tls-key:_files' \
        '--tls-ca=[PEM file of the authorities that a peer'\''s certificate must be from, or "system"; it turns TLS on for calls]:tls-ca:_files' \
        ':id:' \
        && return ;;
    ' curation revert')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print the server'\''s answer as JSON]' \
        '--namespace=[Namespace]:namespace:' \
        '-n[Namespace]:namespace:' \
        '--address=[Address of the gateway, 127.0.0.1\:7400 if not given]:address:' \
        '--timeout=[Give up on a call after this long]:timeout:' \
        '--token-file=[File with the token to show to the gateway; otherwise that in TRISKELE_TOKEN, if any]:token-file:_files' \
        '--tls-cert=[PEM file of this program'\''s certificate and its chain, to show to others]:tls-cert:_files' \
        '--tls-key=[PEM file of the certificate'\''s private key]:tls-key:_files' \
        '--tls-ca=[PEM file of the authorities that a peer'\''s certificate must be from, or "system"; it turns TLS on for calls]:tls-ca:_files' \
        ':id:' \
        && return ;;
    ' curation off')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print the result as JSON]' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        && return ;;
    ' namespace')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        ':command:((list\:"List namespaces by name" stats\:"Count what is in a namespace and what its indexes lack" rename\:"Give a namespace another name, with everything in it" delete\:"Forget a namespace with everything in it"))' ;;
    ' namespace list')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print each namespace as a line of JSON]' \
        '--address=[Address of the gateway, 127.0.0.1\:7400 if not given]:address:' \
        '--timeout=[Give up on a call after this long]:timeout:' \
        '--token-file=[File with the token to show to the gateway; otherwise that in TRISKELE_TOKEN, if any]:token-file:_files' \
        '--tls-cert=[PEM file of this program'\''s certificate and its chain, to show to others]:tls-cert:_files' \
        '--tls-key=[PEM file of the certificate'\''s private key]:tls-key:_files' \
        '--tls-ca=[PEM file of the authorities that a peer'\''s certificate must be from, or "system"; it turns TLS on for calls]:tls-ca:_files' \
        ':prefix:' \
        && return ;;
    ' namespace stats')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print the server'\''s answer as JSON]' \
        '--address=[Address of the gateway, 127.0.0.1\:7400 if not given]:address:' \
        '--timeout=[Give up on a call after this long]:timeout:' \
        '--token-file=[File with the token to show to the gateway; otherwise that in TRISKELE_TOKEN, if any]:token-file:_files' \
        '--tls-cert=[PEM file of this program'\''s certificate and its chain, to show to others]:tls-cert:_files' \
        '--tls-key=[PEM file of the certificate'\''s private key]:tls-key:_files' \
        '--tls-ca=[PEM file of the authorities that a peer'\''s certificate must be from, or "system"; it turns TLS on for calls]:tls-ca:_files' \
        ':name:' \
        && return ;;
    ' namespace rename')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print the server'\''s answer as JSON]' \
        '--address=[Address of the gateway, 127.0.0.1\:7400 if not given]:address:' \
        '--timeout=[Give up on a call after this long]:timeout:' \
        '--token-file=[File with the token to show to the gateway; otherwise that in TRISKELE_TOKEN, if any]:token-file:_files' \
        '--tls-cert=[PEM file of this program'\''s certificate and its chain, to show to others]:tls-cert:_files' \
        '--tls-key=[PEM file of the certificate'\''s private key]:tls-key:_files' \
        '--tls-ca=[PEM file of the authorities that a peer'\''s certificate must be from, or "system"; it turns TLS on for calls]:tls-ca:_files' \
        ':name:' \
        ':new-name:' \
        && return ;;
    ' namespace delete')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--yes[Do not ask for the name again]' \
        '-y[Do not ask for the name again]' \
        '--json[Print the server'\''s answer as JSON]' \
        '--address=[Address of the gateway, 127.0.0.1\:7400 if not given]:address:' \
        '--timeout=[Give up on a call after this long]:timeout:' \
        '--token-file=[File with the token to show to the gateway; otherwise that in TRISKELE_TOKEN, if any]:token-file:_files' \
        '--tls-cert=[PEM file of this program'\''s certificate and its chain, to show to others]:tls-cert:_files' \
        '--tls-key=[PEM file of the certificate'\''s private key]:tls-key:_files' \
        '--tls-ca=[PEM file of the authorities that a peer'\''s certificate must be from, or "system"; it turns TLS on for calls]:tls-ca:_files' \
        ':name:' \
        && return ;;
    ' backup')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        '--json[Print the result as JSON]' \
        ':file:_files' \
        && return ;;
    ' restore')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--verify[Only verify the file]' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        '--json[Print the result as JSON]' \
        ':file:_files' \
        && return ;;
    ' doctor')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print the findings as JSON]' \
        '--namespace=[Namespace]:namespace:' \
        '-n[Namespace]:namespace:' \
        '--address=[Address of the gateway, 127.0.0.1\:7400 if not given]:address:' \
        '--timeout=[Give up on a call after this long]:timeout:' \
        '--token-file=[File with the token to show to the gateway; otherwise that in TRISKELE_TOKEN, if any]:token-file:_files' \
        '--tls-cert=[PEM file of this program'\''s certificate and its chain, to show to others]:tls-cert:_files' \
        '--tls-key=[PEM file of the certificate'\''s private key]:tls-key:_files' \
        '--tls-ca=[PEM file of the authorities that a peer'\''s certificate must be from, or "system"; it turns TLS on for calls]:tls-ca:_files' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        && return ;;
    ' graph')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        ':command:((show\:"Show what is known of a concept\: other names, memories, facts" neighbors\:"List the concepts next to one" path\:"Show the shortest way from one concept to another" stats\:"Count what a namespace'\''s graph has" export\:"Write the graph for other programs" import\:"Add facts from a file of triples" extract\:"Have the extractor'\''s model read what it has not read, or switch it off" trial\:"Measure whether the graph leg earns its place, on data sets with known answers"))' ;;
    ' graph show')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print the result as JSON]' \
        '--namespace=[Namespace]:namespace:' \
        '-n[Namespace]:namespace:' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        '--embedder=[Embedder of the dense leg\: builtin (a trained English model inside the program, the default), hashed (spelling only; hashed?dims=N for 16 to 128 dimensions), model2vec\:FOLDER, onnx\:FOLDER?library=FILE (a transformer inside the process, in builds with the tag onnx), openai\:URL#MODEL?dims=N (OpenAI, Ollama, llama.cpp, vLLM), tei\:URL#MODEL?dims=N, voyage\:MODEL?dims=N, cohere\:MODEL?dims=N]:embedder:' \
        '--embedder-fallback=[Embedder of the same model to ask for a query'\''s vector when the first fails]:embedder-fallback:' \
        '--embedder-key-file=[File with the key for the embedder'\''s server; else TRISKELE_EMBEDDER_KEY or the provider'\''s own variable is read]:embedder-key-file:_files' \
        ':concept:' \
        && return ;;
    ' graph neighbors')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--limit=[How many at most]:limit:' \
        '--json[Print each as a line of JSON]' \
        '--namespace=[Namespace]:namespace:' \
        '-n[Namespace]:namespace:' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        '--embedder=[Embedder of the dense leg\: builtin (a trained English model inside the program, the default), hashed (spelling only; hashed?dims=N for 16 to 128 dimensions), model2vec\:FOLDER, onnx\:FOLDER?library=FILE (a transformer inside the process, in builds with the tag onnx), openai\:URL#MODEL?dims=N (OpenAI, Ollama, llama.cpp, vLLM), tei\:URL#MODEL?dims=N, voyage\:MODEL?dims=N, cohere\:MODEL?dims=N]:embedder:' \
        '--embedder-fallback=[Embedder of the same model to ask for a query'\''s vector when the first fails]:embedder-fallback:' \
        '--embedder-key-file=[File with the key for the embedder'\''s server; else TRISKELE_EMBEDDER_KEY or the provider'\''s own variable is read]:embedder-key-file:_files' \
        ':concept:' \
        && return ;;
    ' graph path')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print the result as JSON]' \
        '--namespace=[Namespace]:namespace:' \
        '-n[Namespace]:namespace:' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        '--embedder=[Embedder of the dense leg\: builtin (a trained English model inside the program, the default), hashed (spelling only; hashed?dims=N for 16 to 128 dimensions), model2vec\:FOLDER, onnx\:FOLDER?library=FILE (a transformer inside the process, in builds with the tag onnx), openai\:URL#MODEL?dims=N (OpenAI, Ollama, llama.cpp, vLLM), tei\:URL#MODEL?dims=N, voyage\:MODEL?dims=N, cohere\:MODEL?dims=N]:embedder:' \
        '--embedder-fallback=[Embedder of the same model to ask for a query'\''s vector when the first fails]:embedder-fallback:' \
        '--embedder-key-file=[File with the key for the embedder'\''s server; else TRISKELE_EMBEDDER_KEY or the provider'\''s own variable is read]:embedder-key-file:_files' \
        ':from:' \
        ':to:' \
        && return ;;
    ' graph stats')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print the result as JSON]' \
        '--namespace=[Namespace]:namespace:' \
        '-n[Namespace]:namespace:' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        '--embedder=[Embedder of the dense leg\: builtin (a trained English model inside the program, the default), hashed (spelling only; hashed?dims=N for 16 to 128 dimensions), model2vec\:FOLDER, onnx\:FOLDER?library=FILE (a transformer inside the process, in builds with the tag onnx), openai\:URL#MODEL?dims=N (OpenAI, Ollama, llama.cpp, vLLM), tei\:URL#MODEL?dims=N, voyage\:MODEL?dims=N, cohere\:MODEL?dims=N]:embedder:' \
        '--embedder-fallback=[Embedder of the same model to ask for a query'\''s vector when the first fails]:embedder-fallback:' \
        '--embedder-key-file=[File with the key for the embedder'\''s server; else TRISKELE_EMBEDDER_KEY or the provider'\''s own variable is read]:embedder-key-file:_files' \
        && return ;;
    ' graph export')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--format=[graphml, dot, or triples as import reads them]:format:(graphml dot triples)' \
        '--namespace=[Namespace]:namespace:' \
        '-n[Namespace]:namespace:' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        '--embedder=[Embedder of the dense leg\: builtin (a trained English model inside the program, the default), hashed (spelling only; hashed?dims=N for 16 to 128 dimensions), model2vec\:FOLDER, onnx\:FOLDER?library=FILE (a transformer inside the process, in builds with the tag onnx), openai\:URL#MODEL?dims=N (OpenAI, Ollama, llama.cpp, vLLM), tei\:URL#MODEL?dims=N, voyage\:MODEL?dims=N, cohere\:MODEL?dims=N]:embedder:' \
        '--embedder-fallback=[Embedder of the same model to ask for a query'\''s vector when the first fails]:embedder-fallback:' \
        '--embedder-key-file=[File with the key for the embedder'\''s server; else TRISKELE_EMBEDDER_KEY or the provider'\''s own variable is read]:embedder-key-file:_files' \
        && return ;;
    ' graph import')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--single[A subject has one object at a time for each relation of the file\: the newest fact replaces the others]' \
        '--json[Print the result as JSON]' \
        '--namespace=[Namespace]:namespace:' \
        '-n[Namespace]:namespace:' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        '--embedder=[Embedder of the dense leg\: builtin (a trained English model inside the program, the default), hashed (spelling only; hashed?dims=N for 16 to 128 dimensions), model2vec\:FOLDER, onnx\:FOLDER?library=FILE (a transformer inside the process, in builds with the tag onnx), openai\:URL#MODEL?dims=N (OpenAI, Ollama, llama.cpp, vLLM), tei\:URL#MODEL?dims=N, voyage\:MODEL?dims=N, cohere\:MODEL?dims=N]:embedder:' \
        '--embedder-fallback=[Embedder of the same model to ask for a query'\''s vector when the first fails]:embedder-fallback:' \
        '--embedder-key-file=[File with the key for the embedder'\''s server; else TRISKELE_EMBEDDER_KEY or the provider'\''s own variable is read]:embedder-key-file:_files' \
        ':file:_files' \
        && return ;;
    ' graph extract')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--off[Switch extraction off in the whole database, and drop what waits for it]' \
        '--json[Print the result as JSON]' \
        '--namespace=[Namespace]:namespace:' \
        '-n[Namespace]:namespace:' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        '--embedder=[Embedder of the dense leg\: builtin (a trained English model inside the program, the default), hashed (spelling only; hashed?dims=N for 16 to 128 dimensions), model2vec\:FOLDER, onnx\:FOLDER?library=FILE (a transformer inside the process, in builds with the tag onnx), openai\:URL#MODEL?dims=N (OpenAI, Ollama, llama.cpp, vLLM), tei\:URL#MODEL?dims=N, voyage\:MODEL?dims=N, cohere\:MODEL?dims=N]:embedder:' \
        '--embedder-fallback=[Embedder of the same model to ask for a query'\''s vector when the first fails]:embedder-fallback:' \
        '--embedder-key-file=[File with the key for the embedder'\''s server; else TRISKELE_EMBEDDER_KEY or the provider'\''s own variable is read]:embedder-key-file:_files' \
        && return ;;
    ' graph trial')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--data=[Folder with a sub-folder per set; see eval]:data:_files -/' \
        '*--sets=[Sets to measure; all if not given]:sets:' \
        '*--single=[Sets whose triples replace each other\: one object at a time for a subject and a relation]:single:' \
        '--store=[Kind of database\: sqlite or postgres]:store:(sqlite postgres)' \
        '--postgres=[Connection URL of a server on which databases may be created]:postgres:' \
        '--out=[Folder for trial.md and trial.json]:out:_files -/' \
        '--limit=[Queries per set; 0 means all]:limit:' \
        '--embedder=[Embedder of the dense leg\: builtin (a trained English model inside the program, the default), hashed (spelling only; hashed?dims=N for 16 to 128 dimensions), model2vec\:FOLDER, onnx\:FOLDER?library=FILE (a transformer inside the process, in builds with the tag onnx), openai\:URL#MODEL?dims=N (OpenAI, Ollama, llama.cpp, vLLM), tei\:URL#MODEL?dims=N, voyage\:MODEL?dims=N, cohere\:MODEL?dims=N]:embedder:' \
        '--embedder-fallback=[Embedder of the same model to ask for a query'\''s vector when the first fails]:embedder-fallback:' \
        '--embedder-key-file=[File with the key for the embedder'\''s server; else TRISKELE_EMBEDDER_KEY or the provider'\''s own variable is read]:embedder-key-file:_files' \
        && return ;;
    ' queue')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        ':command:((list\:"List memories that an index has yet to catch up with, those given up on first" retry\:"Let the indexes try again what they have given up on"))' ;;
    ' queue list')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--index=[Only this index]:index:' \
        '--namespace=[Only this namespace]:namespace:' \
        '-n[Only this namespace]:namespace:' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        '--dead[Only those given up on]' \
        '--limit=[How many at most]:limit:' \
        '--json[Print each as a line of JSON]' \
        && return ;;
    ' queue retry')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print the result as JSON]' \
        '--index=[Only this index]:index:' \
        '--namespace=[Only this namespace]:namespace:' \
        '-n[Only this namespace]:namespace:' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        && return ;;
    ' reembed')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print the result as JSON]' \
        '--max-rate=[Embed at most so many memories a second, to spare the model and the database]:max-rate:' \
        '--embedder=[Embedder of the dense leg\: builtin (a trained English model inside the program, the default), hashed (spelling only; hashed?dims=N for 16 to 128 dimensions), model2vec\:FOLDER, onnx\:FOLDER?library=FILE (a transformer inside the process, in builds with the tag onnx), openai\:URL#MODEL?dims=N (OpenAI, Ollama, llama.cpp, vLLM), tei\:URL#MODEL?dims=N, voyage\:MODEL?dims=N, cohere\:MODEL?dims=N]:embedder:' \
        '--embedder-fallback=[Embedder of the same model to ask for a query'\''s vector when the first fails]:embedder-fallback:' \
        '--embedder-key-file=[File with the key for the embedder'\''s server; else TRISKELE_EMBEDDER_KEY or the provider'\''s own variable is read]:embedder-key-file:_files' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        && return ;;
    ' models')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        ':command:((list\:"List the embedding models that the database has vectors of" prune\:"Remove retired models and their vectors" cancel\:"Give up a reembed that has not come to its end, and remove what it has built" embed-sensitive\:"Let a local model embed sensitive memories, or forbid it again"))' ;;
    ' models list')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print the models as JSON]' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        && return ;;
    ' models prune')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print the result as JSON]' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        && return ;;
    ' models cancel')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print the result as JSON]' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        && return ;;
    ' models embed-sensitive')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print the result as JSON]' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        ':switch:(on off)' \
        && return ;;
    ' lexical')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        ':command:((settings\:"Show or change how a namespace is indexed and searched by words" reindex\:"Index a namespace'\''s words again, for instance after an upgrade" textsearch\:"Make or drop a namespace'\''s index of the extension pg_textsearch, for the scorer textsearch"))' ;;
    ' lexical settings')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--language=[Language of its texts\: danish, dutch, english, finnish, french, german, hungarian, italian, norwegian, portuguese, romanian, russian, simple, spanish, swedish, turkish]:language:' \
        '--k1=[BM25'\''s k1, 0 to 10]:k1:' \
        '--b=[BM25'\''s b, 0 to 1]:b:' \
        '--prefix[Whether the last word of a query also finds longer words]' \
        '--no-prefix[Whether the last word of a query also finds longer words]' \
        '--scorer=[How to rank when a request doesn'\''t say\: bm25,ts_rank,textsearch, or default for the service'\''s own]:scorer:(bm25 ts_rank textsearch default)' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        '--json[Print the result as JSON]' \
        ':namespace:' \
        && return ;;
    ' lexical reindex')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        ':namespace:' \
        && return ;;
    ' lexical textsearch')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--drop[Drop the index]' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        ':namespace:' \
        && return ;;
    ' migrate')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        ':command:((up\:"Apply the migrations that are missing" status\:"List the migrations and whether they have been applied" plan\:"Print the SQL that up would run, and change nothing"))' ;;
    ' migrate up')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print each migration that was applied, or has to wait for locks, as a line of JSON]' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        && return ;;
    ' migrate status')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print each migration as a line of JSON]' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        && return ;;
    ' migrate plan')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print each migration as a line of JSON, with its SQL]' \
        '--store=[Kind of database\: sqlite or postgres; follows from --sqlite and --postgres if not given]:store:(sqlite postgres)' \
        '--sqlite=[Path of the SQLite file; the platform'\''s data folder if not given]:sqlite:_files' \
        '--postgres=[PostgreSQL connection URL]:postgres:' \
        && return ;;
    ' demo')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--embedder=[Embedder of the dense leg\: builtin (a trained English model inside the program, the default), hashed (spelling only; hashed?dims=N for 16 to 128 dimensions), model2vec\:FOLDER, onnx\:FOLDER?library=FILE (a transformer inside the process, in builds with the tag onnx), openai\:URL#MODEL?dims=N (OpenAI, Ollama, llama.cpp, vLLM), tei\:URL#MODEL?dims=N, voyage\:MODEL?dims=N, cohere\:MODEL?dims=N]:embedder:' \
        '--embedder-fallback=[Embedder of the same model to ask for a query'\''s vector when the first fails]:embedder-fallback:' \
        '--embedder-key-file=[File with the key for the embedder'\''s server; else TRISKELE_EMBEDDER_KEY or the provider'\''s own variable is read]:embedder-key-file:_files' \
        && return ;;
    ' eval')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--data=[Folder with a sub-folder per set, each with corpus.jsonl, queries.jsonl and qrels.tsv]:data:_files -/' \
        '*--sets=[Sets to measure; all if not given]:sets:' \
        '--store=[Kind of database\: sqlite or postgres]:store:(sqlite postgres)' \
        '--postgres=[Connection URL of a server on which databases may be created]:postgres:' \
        '--gateway=[Ask this gateway instead of starting a system of its own]:gateway:' \
        '--out=[Folder for report.md, report.json and the run files]:out:_files -/' \
        '*--configs=[Configurations to measure; all if not given\: A-all, B-lexical+dense, C-dense, D-lexical, E-graph]:configs:' \
        '--scorer=[How the lexical leg ranks\: bm25,ts_rank,textsearch]:scorer:(bm25 ts_rank textsearch)' \
        '--embedder=[Embedder of the dense leg\: builtin (a trained English model inside the program, the default), hashed (spelling only; hashed?dims=N for 16 to 128 dimensions), model2vec\:FOLDER, onnx\:FOLDER?library=FILE (a transformer inside the process, in builds with the tag onnx), openai\:URL#MODEL?dims=N (OpenAI, Ollama, llama.cpp, vLLM), tei\:URL#MODEL?dims=N, voyage\:MODEL?dims=N, cohere\:MODEL?dims=N]:embedder:' \
        '--embedder-fallback=[Embedder of the same model to ask for a query'\''s vector when the first fails]:embedder-fallback:' \
        '--embedder-key-file=[File with the key for the embedder'\''s server; else TRISKELE_EMBEDDER_KEY or the provider'\''s own variable is read]:embedder-key-file:_files' \
        '--compare=[Folder of an earlier run, on the other store for instance\: the report says how far the rankings agree]:compare:_files -/' \
        '*--plan=[YAML file that says what to measure and how to decide, instead of --sets, --store and --configs; its report goes to --report]:plan:_files' \
        '--report=[With --plan\: folder for the report, its plots and its verdicts]:report:_files -/' \
        '--revision=[With --plan\: commit that the report names as the code'\''s; the one this program was built from if not given]:revision:' \
        '--limit=[Queries per set; 0 means all]:limit:' \
        '--concurrency=[Recalls at a time; latencies should be taken with 1]:concurrency:' \
        && return ;;
    ' budget')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--admin=[Read the recalls that a running gateway remembers, from the URL of its admin port\: what is done if nothing else is named]:admin:' \
        '--otlp=[Read a file of OTLP JSON instead, as a collector'\''s file exporter writes it; - for standard input]:otlp:_files' \
        '--jaeger=[Ask a Jaeger instead, at the URL of its page]:jaeger:' \
        '--tempo=[Ask a Tempo instead, at the URL of its query API]:tempo:' \
        '*--header=[Header for whoever is asked, such as X-Scope-OrgID=team or Authorization=..]:header:' \
        '--service=[Name of the gateway in the traces]:service:' \
        '--last=[How far back to ask Jaeger or Tempo]:last:' \
        '--limit=[Traces at most]:limit:' \
        '*--budgets=[Budgets to try]:budgets:' \
        '*--leg=[How the gateway'\''s legs divide a budget, as fuserd is told; not needed for the default]:leg:' \
        '*--quality=[JSON file of an evaluation'\''s report, such as docs/evidence/fusion.json, to say what recall a budget leaves]:quality:_files' \
        '--json[Print the report as JSON]' \
        '--html[Print it as a page that needs nothing else]' \
        '--svg[Print the plot]' \
        && return ;;
    ' token')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        ':command:((create\:"Make a token, print it this once and keep its hash" list\:"List tokens and what they allow" revoke\:"Have a token refused from now on"))' ;;
    ' token create')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '*--namespace=[Namespace that it is good for; NAME/* means all below NAME, and * all]:namespace:' \
        '*-n[Namespace that it is good for; NAME/* means all below NAME, and * all]:namespace:' \
        '*--scope=[What it allows\: recall,read,write,admin]:scope:(recall read write admin)' \
        '--expires=[When it ends\: a date, a time, or a span from now such as 90d; never if not given]:expires:' \
        '--rate=[Calls a second that it may make in one namespace, in place of the gateway'\''s --rate-limit]:rate:' \
        '--quota=[Memories a day that it may store in one namespace, in place of the gateway'\''s --write-quota]:quota:' \
        '--tokens=[File of tokens, which gateways are given with the same flag]:tokens:_files' \
        '--json[Print the token and what is kept of it as JSON]' \
        ':name:' \
        && return ;;
    ' token list')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--tokens=[File of tokens, which gateways are given with the same flag]:tokens:_files' \
        '--json[Print each token'\''s entry as a line of JSON]' \
        && return ;;
    ' token revoke')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--tokens=[File of tokens, which gateways are given with the same flag]:tokens:_files' \
        '--json[Print the token'\''s entry as JSON]' \
        ':id:' \
        && return ;;
    ' config')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        ':command:((show\:"Show what is set, and by what\: the environment, the configuration file or the default"))' ;;
    ' config show')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--json[Print each setting as a line of JSON]' \
        '*:command:' \
        && return ;;
    ' completion')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        ':shell:(bash zsh fish)' \
        && return ;;
    ' man')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        '--markdown[Print it as Markdown]' \
        && return ;;
    ' version')
      _arguments -S \
        '--help[Show context-sensitive help]' \
        '-h[Show context-sensitive help]' \
        '--config=[Configuration file, or "off" for none]:config:_files' \
        '--color=[When to colour\: auto (on a terminal, unless NO_COLOR is set), always or never]:color:(auto always never)' \
        '--version[Print the version and exit]' \
        && return ;;
  esac
}

# sourced, or loaded by the completion system
if [[ ${zsh_eval_context[-1]} == loadautofunc ]]; then _triskele "$@"; else compdef _triskele triskele; fi

#!/usr/bin/env bash
# Runs the lexical leg's conformance suite and benchmark by the scorer textsearch, on a PostgreSQL 18 with pg_textsearch that
# is put into a temporary folder and removed afterwards: Debian's, in a root of its own, so that nothing is installed. Needs
# root, apt-get, a Debian mirror among apt's sources, and 600 MB. SIZES: memories of the benchmark; KEEP=DIR keeps the root there.
set -euo pipefail
cd "$(dirname "$0")/.."
((EUID == 0)) || { echo "textsearch.sh: needs root, for chroot" >&2; exit 1; }

work=${KEEP:-$(mktemp -d /tmp/triskele-textsearch.XXXXXX)}
root=$work/root cluster=/srv/pg
serving() { chroot "$root" runuser -u postgres -- /usr/lib/postgresql/18/bin/pg_ctl -D "$cluster/data" "$@"; }
clean_up() {
  serving stop -s -m immediate || true
  rm -rf -- "${root:?}$cluster"
  [[ -n ${KEEP-} ]] || rm -rf -- "$work"
}
trap clean_up EXIT

if [[ ! -x $root/usr/lib/postgresql/18/bin/postgres ]]; then
  # shellcheck disable=SC2016 # apt's own placeholder
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | sed -n 1p)
  [[ -n $mirror ]] || { echo "textsearch.sh: no Debian mirror is among apt's sources" >&2; exit 1; }
  mkdir -p "$work/debootstrap" "$root"
  (cd "$work/debootstrap" && apt-get -qq -o APT::Sandbox::User=root download debootstrap && dpkg -x debootstrap_*.deb .)
  DEBOOTSTRAP_DIR=$work/debootstrap/usr/share/debootstrap "$work/debootstrap/usr/sbin/debootstrap" --variant=minbase \
    --include=postgresql-18,postgresql-18-pgvector,postgresql-18-pg-textsearch sid "$root" "$mirror" >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" >&2; exit 1; }
fi

chroot "$root" install -d -o postgres "$cluster"
chroot "$root" runuser -u postgres -- /usr/lib/postgresql/18/bin/initdb -D "$cluster/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync >"$work/log"
cat >>"$root$cluster/data/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$cluster'
max_connections = 200
shared_preload_libraries = 'pg_textsearch'
fsync = off
synchronous_commit = off
full_page_writes = off
dynamic_shared_memory_type = mmap
CONF
serving start -s -w -l "$cluster/log"

export TRISKELE_TEST_POSTGRES="postgres:///postgres?host=$root$cluster&port=5432&user=postgres"
suite=$(sed -n 's/^func \(Test[A-Za-z]*\)(.*/\1/p' services/lexical/{conformance,exact,scores,textsearch}_test.go | paste -sd'|')
go test -count=1 -timeout 30m -run "^($suite)\$" ./services/lexical -args -textsearch
go run ./services/lexical/benchlexical --sizes "${SIZES:-20000}" --out "${OUT:-out/textsearch}"
cat "${OUT:-out/textsearch}/lexical.md"

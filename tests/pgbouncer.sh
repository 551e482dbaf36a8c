#!/usr/bin/env bash
# Runs a command with PgBouncer, in transaction mode, before the tests' PostgreSQL. See --help.
set -euo pipefail

readonly port=6432

usage() {
    cat <<USAGE
Usage: tests/pgbouncer.sh install | run CMD...

  install     install Debian's package pgbouncer unless there is a pgbouncer (needs root or sudo)
  run CMD...  run CMD with TRISKELE_TEST_POSTGRES leading to the server that it names so far, which has to be on a unix socket,
              by way of a PgBouncer that ends with CMD; exits with CMD's status
USAGE
}

die() {
    printf 'pgbouncer.sh: %s\n' "$*" >&2
    exit 1
}

program() { PATH=$PATH:/usr/sbin command -v pgbouncer; }

install_pgbouncer() {
    ! program >/dev/null || return 0
    local -a as_root=()
    ((EUID == 0)) || as_root=(sudo --)
    "${as_root[@]}" apt-get -qq update >&2 </dev/null || echo "pgbouncer.sh: apt-get update failed: going on with the lists there are" >&2
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install pgbouncer >&2 </dev/null
    # The package starts a service that nobody asked for.
    [[ ! -d /run/systemd/system ]] || "${as_root[@]}" systemctl --quiet disable --now pgbouncer
    program >/dev/null || die "there is still no pgbouncer"
}

run() {
    local socket status=0 again
    [[ -n ${TRISKELE_TEST_POSTGRES-} ]] || die "TRISKELE_TEST_POSTGRES is not set: run under tests/postgres.sh run"
    [[ $TRISKELE_TEST_POSTGRES =~ [?\&]host=(/[^\&]*) ]] || die "the server is not on a unix socket: $TRISKELE_TEST_POSTGRES"
    socket=${BASH_REMATCH[1]}
    program >/dev/null || die "there is no pgbouncer: run 'tests/pgbouncer.sh install'"

    dir=$(mktemp -d "${TMPDIR:-/tmp}/triskele-pgb.XXXXXX")
    trap 'rm -rf -- "$dir"' EXIT
    echo '"postgres" ""' >"$dir/users"
    # Every test has a database of its own, which can be dropped, or copied, only when no connection is kept.
    cat >"$dir/pgbouncer.ini" <<CONF
[databases]
* = host=$socket port=5432

[pgbouncer]
pool_mode = transaction
listen_addr =
listen_port = $port
unix_socket_dir = $dir
auth_type = trust
auth_file = $dir/users
auth_user = postgres
auth_query = SELECT usename, '' FROM pg_user WHERE usename = \$1
max_client_conn = 2000
default_pool_size = 8
server_idle_timeout = 1
ignore_startup_parameters = default_transaction_read_only
CONF
    local -a pooler=("$(program)" "$dir/pgbouncer.ini")
    if ((EUID == 0)); then
        chown -R postgres: "$dir"
        pooler=(setpriv --reuid=postgres --regid=postgres --init-groups -- "${pooler[@]}")
    fi
    trap 'end; rm -rf -- "$dir"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    # What pgx caches by default are prepared statements, which belong to a connection of the server.
    export TRISKELE_TEST_POSTGRES="postgres:///postgres?host=$dir&port=$port&user=postgres&default_query_exec_mode=cache_describe"
    set -m # each in a process group of its own, to be ended as a whole
    for again in yes yes ''; do
        "${pooler[@]}" >"$dir/log" 2>&1 </dev/null &
        pgbouncer=$!
        until [[ -S $dir/.s.PGSQL.$port ]]; do
            kill -0 "$pgbouncer" 2>/dev/null || { cat -- "$dir/log" >&2 && die "PgBouncer does not start"; }
            sleep 0.05
        done
        env -- "$@" <&0 &
        cmd=$! status=0
        wait -n "$pgbouncer" "$cmd" || status=$?
        kill -0 "$pgbouncer" 2>/dev/null && break
        # 1.18 to 1.20 end themselves when a client cancels a statement at a bad moment (their issue 822). The tests cancel many.
        tail -n 3 -- "$dir/log" >&2
        [[ -n $again ]] || die "PgBouncer has ended by itself three times"
        echo "pgbouncer.sh: PgBouncer has ended by itself: once more" >&2
        end
    done
    ((status == 0)) || tail -n 20 -- "$dir/log" >&2
    exit "$status"
}

pgbouncer= cmd= # process groups

end() {
    local group
    for group in $cmd $pgbouncer; do
        kill -- "-$group" 2>/dev/null || :
        wait "$group" 2>/dev/null || :
    done
    cmd='' pgbouncer=''
    rm -f -- "$dir/.s.PGSQL.$port"
}

case ${1-} in
install) install_pgbouncer ;;
run)
    shift
    (($#)) || { usage >&2 && exit 2; }
    run "$@"
    ;;
*)
    usage >&2
    exit 2
    ;;
esac

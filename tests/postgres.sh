#!/usr/bin/env bash
# Throwaway PostgreSQL servers with pgvector for tests and development. See --help.
set -euo pipefail

readonly min_server=15
readonly min_pgvector=0.8 # halfvec came with 0.7, iterative index scans with 0.8
readonly source_suite=trixie
readonly server_root=/usr/lib/postgresql
readonly marker=.triskele-postgres
readonly port=5432

self=$(realpath -- "${BASH_SOURCE[0]}")
readonly self

usage() {
    cat <<USAGE
Usage: tests/postgres.sh COMMAND

  install      make sure PostgreSQL >= $min_server with pgvector >= $min_pgvector is installed (Debian and
               relatives; needs root or sudo unless it is already there)
  start DIR    start a throwaway server in DIR (new or empty) and print its connection
               string; it listens on a unix socket in DIR only and is not crash-safe
               (TRISKELE_TEST_DURABLE=on makes it so: for measuring writes)
  standby DIR PRIMARY
               start a hot standby of the server in PRIMARY in DIR, and print its connection string
  stop DIR     stop that server and remove DIR
  run [--memory] CMD...
               run CMD with TRISKELE_TEST_POSTGRES set to the connection string of a
               fresh server, removed afterwards; exits with CMD's status. If the variable
               is set already, CMD just runs: the server is yours. --memory puts the
               server into /dev/shm if that has 4 GiB: a database of a test is 300
               files, and ext4 takes longer to make each the more were removed lately.

The server runs as you, or as the user postgres if you are root. Its superuser is
postgres, without a password. Everything but the connection string goes to stderr.
USAGE
}

say() { printf 'postgres.sh: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}
bad_usage() {
    say "$*"
    usage >&2
    exit 2
}

server_bin= # set by find_server

# Control file, library and version are all checked: an install may be under way or old.
find_server() {
    local bin major control version
    while read -r bin; do
        major=${bin#"$server_root"/} major=${major%/bin}
        control=/usr/share/postgresql/$major/extension/vector.control
        [[ $major =~ ^[0-9]+$ && $major -ge $min_server ]] || continue
        [[ -x $bin/initdb && -x $bin/postgres && -e ${bin%/bin}/lib/vector.so && -e $control ]] || continue
        version=$(sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" "$control")
        dpkg --compare-versions "$version" ge "$min_pgvector" || continue
        server_bin=$bin
        return 0
    done < <(printf '%s\n' "$server_root"/*/bin | sort -Vr)
    return 1
}

### install

work= # private folder of a running install

install_cleanup() {
    if [[ -e $work/createcluster.conf ]]; then
        cp -p -- "$work/createcluster.conf" /etc/postgresql-common/createcluster.conf
    fi
    rm -rf -- "$work"
}

quietly() {
    if ! "$@" >"$work/log" 2>&1 </dev/null; then
        tail -n 40 -- "$work/log" >&2
        die "failed: $*"
    fi
}

# A developer's machine may hold the dpkg lock for a while (unattended upgrades).
apt_install() { quietly apt-get -qq -y --no-install-recommends -o DPkg::Lock::Timeout=300 install "$@"; }

candidate() { apt-cache policy "$1" | sed -n 's/^ *Candidate: *\([^(].*\)/\1/p'; }

packaged_pgvector() {
    local version
    version=$(candidate "postgresql-$1-pgvector")
    [[ -n $version ]] && dpkg --compare-versions "$version" ge "$min_pgvector"
}

installed_major() {
    local bin
    for bin in "$server_root"/*/bin/postgres; do
        [[ $bin =~ /([0-9]+)/bin/postgres$ && -x $bin ]] || continue
        ((BASH_REMATCH[1] < min_server)) || printf '%s\n' "${BASH_REMATCH[1]}"
    done | sort -n | tail -n 1
}

# The newest server that has a good pgvector package, or else the newest server.
available_major() {
    local major newest=
    while read -r major; do
        [[ $major -ge $min_server && -n $(candidate "postgresql-$major") ]] || continue
        newest=${newest:-$major}
        if packaged_pgvector "$major"; then
            printf '%s\n' "$major"
            return
        fi
    done < <(apt-cache pkgnames postgresql- | sed -n 's/^postgresql-\([0-9][0-9]*\)$/\1/p' | sort -nr)
    printf '%s\n' "$newest"
}

# The package would otherwise create and start a cluster nobody asked for.
without_main_cluster() {
    local conf=/etc/postgresql-common/createcluster.conf
    apt_install postgresql-common
    cp -p -- "$conf" "$work/createcluster.conf"
    printf '\ncreate_main_cluster = false\n' >>"$conf"
    "$@"
    mv -- "$work/createcluster.conf" "$conf"
}

# apt itself knows which of the machine's sources is Debian's archive, in whatever form it is written.
debian_mirror() {
    # shellcheck disable=SC2016 # these are apt's own placeholders
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | sed -n 1p
}

# For distributions without a pgvector package. A newer release's binary would drag its libc along,
# so its source is built here; apt gets its own lists and cache, so the machine's are left alone.
build_pgvector() {
    local major=$1 pg_config=$server_root/$1/bin/pg_config
    local control=/usr/share/postgresql/$1/extension/vector.control
    local mirror keyring=/usr/share/keyrings/debian-archive-keyring.gpg signed_by=
    [[ ! -e $control ]] || die "an older or incomplete pgvector is in the way: upgrade or remove it ($control)"
    mirror=$(debian_mirror)
    [[ -n $mirror ]] || die "no pgvector >= $min_pgvector is packaged here and no Debian archive is among apt's sources:" \
        "install pgvector for PostgreSQL $major yourself, or set TRISKELE_TEST_POSTGRES to a server that has it"
    [[ ! -e $keyring ]] || signed_by="[signed-by=$keyring]"

    mkdir -p -- "$work"/apt/{sources,lists/partial,cache/archives/partial} "$work"/{src,headers,stage}
    printf 'deb-src %s %s %s main\n' "$signed_by" "$mirror" "$source_suite" >"$work/apt/sources/source.list"
    local -a private=(-qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/apt/sources"
        -o "Dir::State::lists=$work/apt/lists" -o "Dir::Cache=$work/apt/cache" -o APT::Sandbox::User=root)
    cd -- "$work/src"
    say "fetching pgvector's source ($source_suite)"
    quietly apt-get "${private[@]}" update
    quietly apt-get "${private[@]}" source pgvector
    say "fetching the headers of PostgreSQL $major"
    quietly apt-get -qq -o APT::Sandbox::User=root download "postgresql-server-dev-$major"
    quietly dpkg -x "postgresql-server-dev-${major}"_*.deb "$work/headers"

    say "building pgvector"
    cd -- "$work"/src/pgvector-*/
    # No OPTFLAGS: -march=native would tie the library to this very processor.
    local -a make=(make with_llvm=no OPTFLAGS= "PG_CONFIG=$pg_config"
        "PG_CPPFLAGS=-I$work/headers/usr/include/postgresql/$major/server")
    quietly "${make[@]}" -j"$(nproc)"
    quietly "${make[@]}" "DESTDIR=$work/stage" install
    # The control file comes last: it is what tells others that the extension is complete.
    mv -- "$work/stage$control" "$work/vector.control"
    quietly cp -R -- "$work/stage/." /
    quietly install -m 644 -- "$work/vector.control" "$control"
    cd /
}

install_server() {
    if ! find_server && ((EUID != 0)); then
        if command -v sudo >/dev/null; then
            exec sudo -- "$BASH" "$self" install
        fi
        die "installing packages needs root, and there is no sudo: run '$self install' as root"
    fi
    if [[ -z $server_bin ]]; then
        command -v apt-get >/dev/null || die "no apt-get: install PostgreSQL >= $min_server and pgvector >= $min_pgvector yourself"
        export LC_ALL=C DEBIAN_FRONTEND=noninteractive PATH="$PATH:/usr/sbin:/sbin"
        umask 022
        exec 9>/run/triskele-postgres.lock
        flock -n 9 || { say "waiting for another install" && flock 9; }
    fi
    if find_server; then
        say "PostgreSQL with pgvector is installed: ${server_bin%/bin}"
        return
    fi

    work=$(mktemp -d)
    trap install_cleanup EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    say "reading package lists"
    # One broken third-party source fails the whole update, and need not matter here.
    apt-get -qq update >&2 </dev/null || say "apt-get update failed: going on with the lists there are"

    local major build=
    local -a packages=() tools=()
    major=$(installed_major)
    if [[ -z $major ]]; then
        major=$(available_major)
        [[ -n $major ]] || die "apt knows no PostgreSQL >= $min_server: add a source that has one"
        say "installing PostgreSQL $major"
        without_main_cluster apt_install "postgresql-$major"
    fi
    if packaged_pgvector "$major"; then
        packages+=("postgresql-$major-pgvector")
    else
        build=yes
        command -v gcc >/dev/null && [[ -e /usr/include/stdio.h ]] || tools+=(gcc libc6-dev)
        command -v make >/dev/null || tools+=(make)
        command -v dpkg-source >/dev/null || tools+=(dpkg-dev)
        packages+=("${tools[@]}")
    fi
    if ((${#packages[@]})); then
        say "installing ${packages[*]}"
        apt_install "${packages[@]}"
    fi
    if [[ -n $build ]]; then
        build_pgvector "$major"
    fi
    find_server || die "installed, and yet no PostgreSQL >= $min_server with pgvector >= $min_pgvector is in $server_root"
    say "PostgreSQL with pgvector is installed: ${server_bin%/bin}"
}

### clusters

server_user=postgres # whom root becomes: the server refuses to run as root
unfinished=          # cluster to remove on exit
held=                # exit status for a signal that came at a bad moment

# The caller's locale, folder and open files must not reach a server that outlives the caller:
# an inherited pipe, for one, would keep its reader waiting.
as_server() (
    cd /
    for fd in /proc/self/fd/*; do
        fd=${fd##*/}
        ((fd <= 2 || fd == 255)) || eval "exec $fd>&-"
    done
    command=(env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@")
    if ((EUID == 0)); then
        PATH=$PATH:/usr/sbin:/sbin
        command=(runuser -u "$server_user" -- "${command[@]}")
    fi
    exec "${command[@]}" </dev/null >&2
)

require_server() {
    find_server || die "no PostgreSQL >= $min_server with pgvector >= $min_pgvector: run '$self install'"
    ((EUID != 0)) || id "$server_user" >/dev/null 2>&1 || die "there is no user '$server_user' to run the server as"
}

# Says on stdout why no cluster can live in DIR; silent if one can.
unfit() {
    local LC_ALL=C dir=$1 parent=$1 socket=$1/.s.PGSQL.$port
    if [[ ! $dir =~ ^[A-Za-z0-9/._~-]+$ ]]; then # it goes into a URL and a configuration file
        echo "$dir: only letters, digits and / . _ ~ - may be in the path"
    elif ((${#socket} > 107)); then
        echo "$dir: too long by $((${#socket} - 107)) bytes for the path of a unix socket (at most 107: $socket)"
    else
        while [[ ! -e $parent ]]; do parent=$(dirname -- "$parent"); done
        [[ $parent != "$dir" ]] || parent=$(dirname -- "$dir")
        as_server test -x "$parent" || echo "$dir: the user ${server_user@Q} cannot get into $parent"
    fi
}

remove_cluster() {
    local dir=$1 version
    if [[ -e $dir/data/postmaster.pid ]]; then
        server_user=$(stat -c %U -- "$dir/data")
        version=$(<"$dir/data/PG_VERSION")
        local -a ctl=("$server_root/$version/bin/pg_ctl" -D "$dir/data")
        # A server that was killed leaves its pid file behind.
        if as_server "${ctl[@]}" status 2>/dev/null; then
            as_server "${ctl[@]}" stop -s -w -m fast -t 30 ||
                as_server "${ctl[@]}" stop -s -w -m immediate -t 30 ||
                ! as_server "${ctl[@]}" status 2>/dev/null ||
                die "cannot stop the server in $dir: left as it is"
        fi
    fi
    rm -rf -- "$dir"
}

# A second Ctrl-C must not interrupt the removal.
on_exit() {
    trap '' INT TERM HUP QUIT
    [[ -z $unfinished ]] || remove_cluster "$unfinished"
}

exit_cleanly() {
    trap on_exit EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 131' QUIT
    trap 'exit 143' TERM
    [[ -z $held ]] || exit "$held"
}

# From here to exit_cleanly, a signal only gets noted: nothing may come between the making of a
# directory and the note to remove it.
hold_signals() {
    trap 'held=129' HUP
    trap 'held=130' INT
    trap 'held=131' QUIT
    trap 'held=143' TERM
}

connection= # set by boot
durable=${TRISKELE_TEST_DURABLE:-off}

# Makes an empty folder for a cluster, which is removed on exit unless the caller says otherwise.
make_folder() {
    local dir=$1 reason
    reason=$(unfit "$dir")
    [[ -z $reason ]] || die "$reason"

    hold_signals
    mkdir -p -- "$dir"
    [[ -z $(ls -A -- "$dir") ]] || die "$dir is not empty"
    # noclobber: of two who want the same directory, one loses here
    (set -o noclobber && : >"$dir/$marker") 2>/dev/null || die "$dir is in use, or not writable"
    unfinished=$dir
    exit_cleanly
    : >"$dir/log"
    mkdir -- "$dir/data"
    ((EUID != 0)) || chown -R -- "$server_user": "$dir"
    # Anyone who reaches the socket is superuser.
    chmod 700 -- "$dir" "$dir/data"
}

boot() {
    local dir=$1
    as_server "$server_bin/pg_ctl" start -s -w -t 60 -D "$dir/data" -l "$dir/log" || {
        tail -n 30 -- "$dir/log" >&2
        die "the server does not start"
    }
    connection="postgres:///postgres?host=$dir&port=$port&user=postgres"
}

start_cluster() {
    local dir=$1 locale=C shm
    make_folder "$dir"

    case $'\n'$(locale -a 2>/dev/null)$'\n' in
    *$'\n'[Cc].[Uu][Tt][Ff]8$'\n'* | *$'\n'[Cc].[Uu][Tt][Ff]-8$'\n'*) locale=C.UTF-8 ;;
    esac
    as_server "$server_bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --locale="$locale" \
        --no-sync --no-instructions >"$dir/log" 2>&1 || {
        cat -- "$dir/log" >&2
        die "initdb failed"
    }
    cat >>"$dir/data/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$dir'
port = $port
max_connections = 200
shared_preload_libraries = ''
fsync = $durable
synchronous_commit = $durable
full_page_writes = $durable
CONF
    # Containers often have 64 MB of shared memory, which a parallel HNSW build overruns.
    shm=$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1) || shm=0
    ((shm >= 512 * 1024)) || echo 'dynamic_shared_memory_type = mmap' >>"$dir/data/postgresql.conf"
    boot "$dir"
}

standby() {
    local dir primary
    require_server
    dir=$(realpath -ms -- "$1") primary=$(realpath -ms -- "$2")
    make_folder "$dir"
    as_server "$server_bin/pg_basebackup" -h "$primary" -p "$port" -U postgres -D "$dir/data" \
        --write-recovery-conf --checkpoint=fast --no-sync >"$dir/log" 2>&1 || {
        cat -- "$dir/log" >&2
        die "cannot copy the server in $primary"
    }
    echo "unix_socket_directories = '$dir'" >>"$dir/data/postgresql.conf"
    boot "$dir"
    unfinished=
    printf '%s\n' "$connection"
}

start() {
    local dir
    require_server
    dir=$(realpath -ms -- "$1")
    start_cluster "$dir"
    unfinished=
    printf '%s\n' "$connection"
}

stop() {
    local dir
    dir=$(realpath -ms -- "$1")
    [[ -d $dir ]] || die "$dir: no such directory"
    [[ -f $dir/$marker ]] || die "$dir was not made by 'start': left alone"
    trap '' INT TERM HUP QUIT
    remove_cluster "$dir"
}

# Whether the terminal's Ctrl-C reaches this process, and with it everything in its process group.
in_foreground() {
    local stat group terminal_group
    stat=$(<"/proc/$$/stat")
    read -r _ _ group _ _ terminal_group _ <<<"${stat##*) }"
    ((group == terminal_group))
}

child=       # pid of run's CMD
target=      # what to signal: the child, or its process group
foreground=  # whether CMD shares the terminal with us
interrupted= # whether a signal came in during wait
caught=      # the last signal
killer=      # process group of the watchdog

forward() {
    interrupted=yes caught=$1
    # The terminal sends its signals to CMD as well. CMD may outlive them: psql does.
    if [[ -n $foreground && $1 != TERM ]]; then
        return 0 # said outright: in a trap, a bare return passes on what the signal interrupted
    fi
    kill -s "$1" -- "$target" 2>/dev/null || :
    if [[ -z $killer ]]; then
        set -m
        (sleep 10 && kill -s KILL -- "$target") >/dev/null 2>&1 &
        killer=-$!
        set +m
    fi
}

run() {
    local base status shm
    require_server
    base=$(realpath -ms -- "${TMPDIR:-/tmp}")
    if [[ -n $memory ]]; then
        shm=$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1) || shm=0
        ((shm < 4 * 1024 * 1024)) || base=/dev/shm
    fi
    [[ -w $base && -z $(unfit "$base/triskele-pg.XXXXXX") ]] || base=/tmp
    hold_signals
    unfinished=$(trap '' INT QUIT TERM HUP && mktemp -d "$base/triskele-pg.XXXXXX")
    exit_cleanly
    start_cluster "$unfinished"
    export TRISKELE_TEST_POSTGRES=$connection

    # bash runs no trap while it waits for a foreground command, so CMD runs in the background: at the
    # terminal in our process group, to keep keyboard and Ctrl-C (which background commands ignore by
    # default); elsewhere in a group of its own, to be signalled as a whole.
    if in_foreground; then
        foreground=yes
        env --default-signal=INT,QUIT -- "$@" <&0 &
        child=$! target=$!
    else
        set -m
        env -- "$@" &
        child=$! target=-$!
        set +m
    fi
    for signal in INT QUIT TERM HUP; do
        # shellcheck disable=SC2064 # expand now
        trap "forward $signal" "$signal"
    done
    while :; do
        interrupted='' status=0
        wait "$child" || status=$?
        [[ -n $interrupted ]] || break
    done
    # When CMD dies the moment a signal interrupts wait, bash may lose its status and say -1.
    ((status >= 0)) || status=$((128 + $(kill -l "$caught")))
    [[ -z $killer ]] || kill -- "$killer" 2>/dev/null || :
    exit "$status"
}

case ${1-} in
-h | --help | help)
    usage
    ;;
install)
    (($# == 1)) || bad_usage "install takes no arguments"
    install_server
    ;;
standby)
    (($# == 3)) || bad_usage "standby takes two arguments, the directory and the primary's"
    standby "$2" "$3"
    ;;
start | stop)
    [[ $# == 2 && -n ${2-} ]] || bad_usage "$1 takes one argument, the directory"
    "$1" "$2"
    ;;
run)
    shift
    memory=
    if [[ ${1-} == --memory ]]; then
        memory=yes
        shift
    fi
    [[ ${1-} != -- ]] || shift
    (($#)) || bad_usage "run needs a command"
    if [[ -n ${TRISKELE_TEST_POSTGRES-} ]]; then
        exec env -- "$@"
    fi
    # CMD's driver would let these override the connection string's defaults.
    unset "${!PG@}"
    run "$@"
    ;;
'')
    bad_usage "no command given"
    ;;
*)
    bad_usage "unknown command: $1"
    ;;
esac

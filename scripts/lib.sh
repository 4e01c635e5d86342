# shellcheck shell=bash
# Common parts of the scripts: the build environment outside the checkout, and small calls to a node.
#
# Sourced by scripts that have already set `set -euo pipefail`. Reads:
#   THUBAN_CACHE      folder of builds and data           (default ${XDG_CACHE_HOME:-~/.cache}/thuban)
#   CARGO_TARGET_DIR  target folder of cargo              (default $THUBAN_CACHE/target)
#   THUBAN_PROFILE    build profile                       (default: chosen by the script)
#   THUBAN_TARGET     target, see scripts/native.sh       (default: this machine's)

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/native.sh
. "$ROOT/scripts/native.sh"
CACHE=${THUBAN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/thuban}
export THUBAN_CACHE=$CACHE # what the tests install for themselves goes there too

# Processor seconds of a build by quick and by release, for the forecast. On two processors the first build is forecast
# with the minutes that README.md states; a test compares them.
CPU_SECONDS=840
RELEASE_CPU_SECONDS=940
# How long another program may hold apt's lock.
APT_LOCK_LIMIT_S=300

say() { printf '==> %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# usage: prints the header comment of the running script, and exits.
usage() { awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0" >&2; exit 2; }

# as_root COMMAND...: uses sudo if necessary.
as_root() {
    local -a through=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "please run as root: $*"
        through=(sudo)
    fi
    "${through[@]}" "$@" </dev/null >&2
}

# apt ARGUMENT...: apt-get, which waits while another program holds one of its locks.
apt() {
    local output said='' deadline=$((SECONDS + APT_LOCK_LIMIT_S))
    until output=$(as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -qq "$@" 2>&1); do
        grep -qE 'Could not get lock|Unable to (acquire|lock)' <<<"$output" || { printf '%s\n' "$output" >&2; return 1; }
        [ "$SECONDS" -lt "$deadline" ] || die "another program has held apt's lock for $APT_LOCK_LIMIT_S s: $output"
        [ -n "$said" ] || say "another program holds apt's lock; waiting for it, up to $APT_LOCK_LIMIT_S s"
        said=yes
        sleep 1
    done
}

# Installs Debian packages, saying so first.
apt_install() {
    command -v apt-get >/dev/null || die "please install with your package manager (Debian's names): $*"
    say "installing with apt-get: $*"
    apt update
    apt install --yes --no-install-recommends "$@"
}

# Checks for the tools that the build uses, not for package names, which differ between distributions.
has_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] || compgen -G '/usr/lib*/llvm*/lib/libclang*.so*' >/dev/null ||
        compgen -G '/usr/lib*/libclang*.so*' >/dev/null || compgen -G '/usr/lib/*/libclang*.so*' >/dev/null
}

# Compilers for RocksDB (C++), jemalloc and lz4 (C); curl for the scripts. Libraries that scripts/native.sh cannot build
# are built by the crates' own build scripts, one of which needs libclang.
ensure_tools() {
    local -a missing=()
    command -v g++ >/dev/null || missing+=(g++ libc6-dev)
    command -v make >/dev/null || missing+=(make)
    command -v curl >/dev/null || missing+=(curl ca-certificates)
    if ! native_is_possible; then
        command -v clang >/dev/null || missing+=(clang)
        has_libclang || missing+=(libclang-dev)
    fi
    if is_cross && ! command -v "$(for_target c++)" >/dev/null; then missing+=("g++-${THUBAN_TARGET%%-*}-linux-gnu"); fi
    [ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}"
    if ! command -v cargo >/dev/null; then
        # shellcheck source=/dev/null
        [ ! -f "$HOME/.cargo/env" ] || . "$HOME/.cargo/env"
        command -v cargo >/dev/null || install_rustup
    fi
    ensure_compiler
    ! is_cross || ensure_target
}

# Installs rustup for this user, by the program that its own site hands out, without a toolchain: ensure_compiler adds
# the one that is wanted.
install_rustup() {
    local site directory
    site=https://static.rust-lang.org/rustup/dist/$(uname -m)-unknown-linux-gnu
    directory=$(mktemp -d)
    say "installing Rust with rustup, into ${CARGO_HOME:-$HOME/.cargo}"
    # The checksum guards against a download that broke off; both come from the same site.
    if ! curl -fsSL --proto '=https' --retry 2 --max-time 300 -o "$directory/rustup-init" "$site/rustup-init" ||
        ! curl -fsSL --proto '=https' --retry 2 --max-time 60 -o "$directory/sum" "$site/rustup-init.sha256" ||
        [ "$(sha256sum <"$directory/rustup-init" | cut -d' ' -f1)" != "$(cut -d' ' -f1 "$directory/sum")" ]; then
        rm -rf "$directory"
        die "Rust could not be downloaded from $site: install it by hand, see https://rustup.rs"
    fi
    chmod +x "$directory/rustup-init"
    "$directory/rustup-init" -y --quiet --no-modify-path --default-toolchain none --profile minimal </dev/null >/dev/null ||
        die "Rust could not be installed: install it by hand, see https://rustup.rs"
    rm -rf "$directory"
    export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
}

# The standard library of Rust for THUBAN_TARGET, and what cargo needs to know of it.
ensure_target() {
    local name=${THUBAN_TARGET^^}
    export CARGO_BUILD_TARGET=$THUBAN_TARGET "CARGO_TARGET_${name//-/_}_LINKER=$(for_target cc)"
    [ ! -d "$(rustc --print sysroot)/lib/rustlib/$THUBAN_TARGET" ] || return 0
    command -v rustup >/dev/null || die "your toolchain of Rust has no standard library for $THUBAN_TARGET"
    say "installing the standard library of Rust for $THUBAN_TARGET"
    (cd "$ROOT" && rustup target add "$THUBAN_TARGET" </dev/null >&2) || die "rustup has no standard library for $THUBAN_TARGET"
}

# The version of Rust that rust-toolchain.toml names.
compiler_version() { sed -n 's/^channel = "\(.*\)"$/\1/p' "$ROOT/rust-toolchain.toml"; }

# Installs that version, even if rustup is set to install none by itself. If it is unavailable, the default one builds.
ensure_compiler() {
    local channel
    [ -z "${RUSTUP_TOOLCHAIN:-}" ] && command -v rustup >/dev/null || return 0
    channel=$(compiler_version)
    case "$(rustup toolchain list)" in *"$channel-"*) return 0 ;; esac
    say "installing Rust $channel"
    if rustup toolchain install "$channel" --profile minimal --component clippy,rustfmt --no-self-update </dev/null >&2; then
        return 0
    fi
    RUSTUP_TOOLCHAIN=$(rustup default | cut -d' ' -f1)
    export RUSTUP_TOOLCHAIN
    say "Rust $channel could not be installed: $RUSTUP_TOOLCHAIN builds instead"
}

# For Python programs from their registry.
ensure_venv() { python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3 python3-venv; }

# run_cargo SUBCOMMAND ARGUMENT...: cargo with the libraries in the cache. Formatting builds nothing and needs no
# settings.
run_cargo() {
    local subcommand=$1
    shift
    [ "$subcommand" != fmt ] || local NATIVE_CONFIG=''
    cargo "$subcommand" ${NATIVE_CONFIG:+--config "$NATIVE_CONFIG"} "$@"
}

# Everything that run_cargo needs to compile; the checkout stays free of build output.
prepare_cargo() {
    ensure_tools
    mkdir -p "$CACHE"
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$CACHE/target}
    prepare_native
}

# And to link.
prepare_build() {
    prepare_cargo
    native_is_there || make_native_shown
}

# minutes SECONDS: processor seconds divided over all processors.
minutes() { printf '%s minutes' $((($1 / $(nproc) + 59) / 60)); }

# duration SECONDS
duration() { printf '%s min %s s' $(($1 / 60)) $(($1 % 60)); }

# logged FILE COMMAND...: redirects the command's output to the file, and prints it if the command fails.
logged() {
    local log=$1
    shift
    "$@" >"$log" 2>&1 && return 0
    tr '\r' '\n' <"$log" | grep -v '^ *Building \[' | tail -n 40 >&2
    return 1
}

# crate_progress LOG: the last count of cargo's own progress line.
crate_progress() {
    local counted
    counted=$(tail -c 2000 "$1" 2>/dev/null | grep -oE '[0-9]+/[0-9]+: ' | tail -n 1) || true
    counted=${counted%: }
    [ -n "$counted" ] || return 0
    printf 'crates %s of %s, ' "${counted%/*}" "${counted#*/}"
}

# tell_progress LOG SECONDS: updates a line on a terminal, else prints a new one.
tell_progress() {
    local line
    line="    $(native_progress)$(crate_progress "$1")$(duration "$2")"
    if [ -t 2 ]; then printf '\r\033[K%s' "$line" >&2; else printf '%s\n' "$line" >&2; fi
}

# shown LOG PID...: waits for the processes and prints their progress meanwhile. Fails if one of them does.
shown() {
    local log=$1 pid status=0 every=20 last=$SECONDS began=$SECONDS
    shift
    [ ! -t 2 ] || every=1
    for pid; do
        while kill -0 "$pid" 2>/dev/null; do
            sleep 0.2
            [ $((SECONDS - last)) -ge "$every" ] || continue
            last=$SECONDS
            tell_progress "$log" $((SECONDS - began))
        done
        wait "$pid" || status=$?
    done
    [ ! -t 2 ] || printf '\r\033[K' >&2
    return "$status"
}

make_native_shown() {
    say "compiling RocksDB and jemalloc once, about $(minutes "$NATIVE_CPU_SECONDS"); kept in ${NATIVE_CONFIG%/*}"
    logged "$CACHE/native.log" "$ROOT/scripts/native/make" &
    shown /dev/null $! || die "RocksDB or jemalloc does not compile; all that was said: $CACHE/native.log"
}

# build_binary PROFILE: builds the program by THUBAN_PROFILE, else by this profile, and sets THUBAN_BIN to its path; a
# THUBAN_BIN given by the caller is used as is. The library and its crates are compiled concurrently with RocksDB; only
# the program has to be linked with it.
build_binary() {
    if [ -n "${THUBAN_BIN:-}" ]; then
        [ -x "$THUBAN_BIN" ] || die "THUBAN_BIN=$THUBAN_BIN is not an executable file"
        return 0
    fi
    local profile=${THUBAN_PROFILE:-$1} began=$SECONDS binary
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$CACHE/target}
    binary=$(binary_of "$profile")
    [ -x "$binary" ] || forecast "$profile"
    prepare_cargo
    compile_binary "$profile" || die "the build failed; all that was said: $CACHE/build.log, $CACHE/native.log"
    THUBAN_BIN=$binary
    [ $((SECONDS - began)) -lt 5 ] || say "built in $(duration $((SECONDS - began))): $THUBAN_BIN"
}

# forecast PROFILE: prints the steps of a first build, and their approximate duration.
forecast() {
    local work=$CPU_SECONDS parts="its crates by the profile $1"
    [ "$1" != release ] || work=$RELEASE_CPU_SECONDS
    if ! compgen -G "$CACHE/native-*/librocksdb.a" >/dev/null; then
        work=$((work + NATIVE_CPU_SECONDS))
        parts="RocksDB and jemalloc once, and $parts"
    fi
    say "building Thuban: $parts; about $(minutes "$work") on $(nproc) processors, kept in $CACHE"
}

compile_binary() (
    compiling=()
    cd "$ROOT" || exit 1
    cargo fetch --quiet --locked --target "$(host)" </dev/null >&2 || exit 1
    export CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=120
    if ! native_is_there; then
        # The crates wait for each other, these units for nothing: they use idle processors.
        logged "$CACHE/native.log" nice -n 10 scripts/native/make </dev/null &
        compiling+=($!)
    fi
    logged "$CACHE/build.log" run_cargo build --profile "$1" --locked --lib </dev/null &
    shown "$CACHE/build.log" "${compiling[@]}" $! || exit 1
    logged "$CACHE/build.log" run_cargo build --profile "$1" --locked --bin thuban </dev/null &
    shown "$CACHE/build.log" $! || exit 1
    [ "$1" = quick ] && ! is_cross || exit 0
    mkdir -p "$CACHE/bin"
    cp "$(built_by_cargo quick)" "$CACHE/bin/thuban.part" && mv "$CACHE/bin/thuban.part" "$CACHE/bin/thuban"
)

# binary_of PROFILE: path of the program. Quick builds have a folder of their own, which the tests do not change.
binary_of() {
    if [ "$1" = quick ] && ! is_cross; then printf '%s/bin/thuban' "$CACHE"; else built_by_cargo "$1"; fi
}

# built_by_cargo PROFILE: path of cargo's output.
built_by_cargo() {
    local folder=$CARGO_TARGET_DIR
    ! is_cross || folder=$folder/$THUBAN_TARGET
    printf '%s/%s/thuban' "$folder" "${1/#dev/debug}"
}

# The triple of this machine.
host() { rustc -vV | sed -n 's/^host: //p'; }

# install_tool NAME VERSION: $CACHE/tools/NAME-VERSION/bin/NAME, from the registry's sources. It is not optimized: it
# runs for seconds, and optimization would dominate its build time.
install_tool() {
    local name=$1 version=$2 home=$CACHE/tools/$1-$2
    mkdir -p "$CACHE/tools"
    (
        flock 9 # two checkouts may come here at once
        [ ! -x "$home/bin/$name" ] || exit 0
        say "building $name $version once, a few CPU minutes; kept in $home"
        CARGO_TARGET_DIR=$CACHE/tools/build CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=0 \
            CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
            env -u CARGO_BUILD_TARGET cargo install --quiet --locked --root "$home" "$name@$version" </dev/null >&2
        rm -rf "$CACHE/tools/build"
    ) 9>"$CACHE/tools/lock"
}

# wait_until SECONDS WHAT COMMAND...: repeats the command until it succeeds or the time is up.
wait_until() {
    local limit=$1 what=$2 deadline
    shift 2
    deadline=$((SECONDS + limit))
    until "$@"; do
        [ "$SECONDS" -lt "$deadline" ] || { printf 'error: not within %s s: %s\n' "$limit" "$what" >&2; return 1; }
        sleep 0.2
    done
}

# ready URL: reports whether this node, or the balancer in front of it, is ready by /readyz.
ready() { curl -fsS -o /dev/null --max-time 2 "$1/readyz" 2>/dev/null; }

# random_hex BYTES
random_hex() { od -An -N"$1" -tx1 /dev/urandom | tr -d ' \n'; }

# secret_file FILE BYTES: creates the file once, readable by its owner only.
secret_file() {
    [ -s "$1" ] || (umask 077 && random_hex "$2" >"$1")
}

# Path where scripts/compose leaves the certificate of the deployment's authority.
compose_ca_file() { printf '%s/compose-%s-ca.pem' "$CACHE" "${COMPOSE_PROJECT_NAME:-thuban}"; }

# docker-compose of either generation, on this project's file.
compose() {
    local -a command=(docker compose)
    docker compose version >/dev/null 2>&1 || command=(docker-compose)
    command -v "${command[0]}" >/dev/null || die "neither 'docker compose' nor docker-compose is installed"
    "${command[@]}" --project-directory "$ROOT" -f "$ROOT/docker-compose.yml" "$@"
}

# native_versions FOLDER: locked versions, in a checkout, of the libraries that scripts/native.sh compiles.
native_versions() { grep -A1 -E '^name = "(librocksdb-sys|tikv-jemalloc-sys)"' "$1/Cargo.lock"; }

# binary_of_revision COMMIT PROFILE OPTIONS: prints the path of the program of an earlier revision, built once by the
# present compiler: that of the revision may not be installed. Needs prepare_build, and a subshell: $(binary_of_revision …).
binary_of_revision() {
    local commit=$1 profile=$2 tree binary
    shift 2
    binary=$CACHE/revisions/$commit-$profile
    if [ ! -x "$binary" ]; then
        say "building revision ${commit:0:12} ($profile)"
        tree=$(mktemp -d)
        # shellcheck disable=SC2064 # the folder of now
        trap "git -C '$ROOT' worktree remove --force '$tree' 2>/dev/null || true" EXIT
        git -C "$ROOT" worktree add --quiet --detach "$tree" "$commit"
        cmp -s <(native_versions "$tree") <(native_versions "$ROOT") || NATIVE_CONFIG= # cargo builds its other RocksDB
        (cd "$tree" && RUSTUP_TOOLCHAIN=${RUSTUP_TOOLCHAIN:-$(compiler_version)} \
            run_cargo build "$@" --locked --bin thuban </dev/null >&2)
        mkdir -p "$CACHE/revisions"
        cp "$(built_by_cargo "$profile")" "$binary.part"
        mv "$binary.part" "$binary"
    fi
    echo "$binary"
}

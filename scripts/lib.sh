# shellcheck shell=bash
# What the scripts share: the build environment outside the checkout, and small calls on a node.
#
# Sourced by scripts that have already set `set -euo pipefail`. Reads:
#   THUBAN_CACHE      where builds and data are kept       (default ${XDG_CACHE_HOME:-~/.cache}/thuban)
#   CARGO_TARGET_DIR  where cargo builds                   (default $THUBAN_CACHE/target)
#   ROCKSDB_LIB_DIR   a directory with a librocksdb.a of yours (default: built once into the cache)

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${THUBAN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/thuban}
export THUBAN_CACHE=$CACHE # what the tests install for themselves goes there too

say() { printf '==> %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# as_root COMMAND...: through sudo only if it must.
as_root() {
    local -a through=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "please run as root: $*"
        through=(sudo)
    fi
    "${through[@]}" "$@" </dev/null >&2
}

# Installs Debian packages, saying so first.
apt_install() {
    command -v apt-get >/dev/null || die "please install with your package manager (Debian's names): $*"
    say "installing with apt-get: $*"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

# The probes look for what the build uses, not for package names: another distribution's will do.
has_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] || compgen -G '/usr/lib*/llvm*/lib/libclang*.so*' >/dev/null ||
        compgen -G '/usr/lib*/libclang*.so*' >/dev/null || compgen -G '/usr/lib/*/libclang*.so*' >/dev/null
}

# Compilers for RocksDB (C++), jemalloc and lz4 (C), libclang for the generated bindings, curl for the
# scripts.
ensure_tools() {
    local -a missing=()
    command -v g++ >/dev/null || missing+=(g++ libc6-dev)
    command -v make >/dev/null || missing+=(make)
    command -v clang >/dev/null || missing+=(clang)
    has_libclang || missing+=(libclang-dev)
    command -v curl >/dev/null || missing+=(curl ca-certificates)
    [ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}"
    if ! command -v cargo >/dev/null; then
        # shellcheck source=/dev/null
        [ ! -f "$HOME/.cargo/env" ] || . "$HOME/.cargo/env"
        command -v cargo >/dev/null || die "cargo is missing: install Rust 1.89 or newer, see https://rustup.rs"
    fi
}

# For what is written in Python and installed from its registry.
ensure_venv() { python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3 python3-venv; }

rocksdb_version() {
    awk '/^name = "librocksdb-sys"$/ { getline; gsub(/"/, "", $3); print $3; exit }' "$ROOT/Cargo.lock"
}

# Compiling RocksDB is ten minutes of any build, and cargo would repeat it for every profile. So it is
# compiled once per version; `-p` from the workspace selects the very features that the program asks for.
prepare_rocksdb() {
    [ -z "${ROCKSDB_LIB_DIR:-}" ] || return 0
    local version library
    version=$(rocksdb_version)
    [ -n "$version" ] || die "Cargo.lock names no librocksdb-sys"
    library=$CACHE/rocksdb-$version/librocksdb.a
    if [ ! -f "$library" ]; then
        mkdir -p "$CACHE"
        # Two checkouts may come here at once: the second waits for the first, then finds its result.
        ( flock 9; [ -f "$library" ] || build_rocksdb "$version" "$library" ) 9>"$CACHE/rocksdb.lock"
    fi
    export ROCKSDB_LIB_DIR=${library%/*}
}

build_rocksdb() {
    local version=$1 library=$2 target=$CACHE/rocksdb-build found
    say "compiling RocksDB (librocksdb-sys $version) once, about 25 CPU minutes; kept in ${library%/*}"
    (cd "$ROOT" && CARGO_TARGET_DIR=$target cargo build --release -p librocksdb-sys --locked </dev/null >&2)
    found=$(find "$target/release/build" -path '*/librocksdb-sys-*/out/librocksdb.a' -print -quit)
    [ -n "$found" ] || die "cargo built librocksdb-sys but left no librocksdb.a under $target"
    mkdir -p "${library%/*}"
    cp "$found" "$library.part"
    mv "$library.part" "$library" # a rename, so that an interrupted copy is never taken for the library
    rm -rf "$target"
}

# Everything that cargo needs, exported; the checkout stays free of build output.
prepare_build() {
    ensure_tools
    mkdir -p "$CACHE"
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$CACHE/target}
    prepare_rocksdb
    export ROCKSDB_STATIC=1
}

# install_tool NAME VERSION: $CACHE/tools/NAME-VERSION/bin/NAME, from the registry's sources. It is not
# optimized: it runs for seconds, and optimizing would be most of the minutes of its build.
install_tool() {
    local name=$1 version=$2 home=$CACHE/tools/$1-$2
    mkdir -p "$CACHE/tools"
    (
        flock 9 # two checkouts may come here at once
        [ ! -x "$home/bin/$name" ] || exit 0
        say "building $name $version once, a few CPU minutes; kept in $home"
        CARGO_TARGET_DIR=$CACHE/tools/build CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=0 \
            CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
            cargo install --quiet --locked --root "$home" "$name@$version" </dev/null >&2
        rm -rf "$CACHE/tools/build"
    ) 9>"$CACHE/tools/lock"
}

# Builds the release binary and leaves its path in THUBAN_BIN; a THUBAN_BIN given by the caller is taken.
build_release() {
    if [ -n "${THUBAN_BIN:-}" ]; then
        [ -x "$THUBAN_BIN" ] || die "THUBAN_BIN=$THUBAN_BIN is not an executable file"
        return 0
    fi
    prepare_build
    say "building the release binary in $CARGO_TARGET_DIR"
    (cd "$ROOT" && cargo build --release --locked </dev/null >&2)
    THUBAN_BIN=$CARGO_TARGET_DIR/release/thuban
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

# ready URL: does this node, or the balancer before it, answer /readyz?
ready() { curl -fsS -o /dev/null --max-time 2 "$1/readyz" 2>/dev/null; }

# random_hex BYTES
random_hex() { od -An -N"$1" -tx1 /dev/urandom | tr -d ' \n'; }

# secret_file FILE BYTES: makes the file once, readable by its owner only.
secret_file() {
    [ -s "$1" ] || (umask 077 && random_hex "$2" >"$1")
}

# Where scripts/compose leaves the certificate of the deployment's authority.
compose_ca_file() { printf '%s/compose-%s-ca.pem' "$CACHE" "${COMPOSE_PROJECT_NAME:-thuban}"; }

# docker-compose of either generation, on this project's file.
compose() {
    local -a command=(docker compose)
    docker compose version >/dev/null 2>&1 || command=(docker-compose)
    command -v "${command[0]}" >/dev/null || die "neither 'docker compose' nor docker-compose is installed"
    "${command[@]}" --project-directory "$ROOT" -f "$ROOT/docker-compose.yml" "$@"
}

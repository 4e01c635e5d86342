# shellcheck shell=bash
# The C and C++ libraries in the binary, RocksDB and jemalloc, compiled once into the cache. Sourced by scripts/lib.sh.
#
# cargo would compile them for every profile and every target folder, and RocksDB file by file, which parses the same
# headers three hundred times. Here RocksDB's sources, those of the crate librocksdb-sys, are joined to a few units, and
# jemalloc is built without the unused variants. Arguments and bindings are those of the crates' own build scripts,
# recorded by scripts/native/record; native.toml makes cargo use the results instead of those scripts, so libclang is
# not needed. On another processor than x86-64, or for another version of a crate than the recorded one, cargo builds
# them by itself, as it does without these scripts.
#
# THUBAN_TARGET=aarch64-unknown-linux-gnu compiles everything for arm64 on x86-64, by Debian's cross compilers.

NATIVE_TARGET=${THUBAN_TARGET:-x86_64-unknown-linux-gnu}
NATIVE_RECORDS=$ROOT/scripts/native
# Processor seconds that both take, measured on one machine (docs/building.md), for the forecast.
# shellcheck disable=SC2034 # scripts/lib.sh reads it
NATIVE_CPU_SECONDS=320
# Memory to compile a quarter of RocksDB, and half of that; and of a concurrent Rust compiler.
QUARTER_MIB=2200
EIGHTH_MIB=1500
RUSTC_MIB=700

# locked_version CRATE: its version in Cargo.lock.
locked_version() {
    awk -v name="$1" '$0 == "name = \"" name "\"" { getline; gsub(/"/, "", $3); print $3; exit }' "$ROOT/Cargo.lock"
}

# crate_folder CRATE: where cargo has unpacked its sources.
crate_folder() {
    local found
    found=$(cd "$ROOT" && cargo metadata --locked --format-version 1 --filter-platform "$NATIVE_TARGET" </dev/null |
        grep -oE "\"manifest_path\":\"[^\"]*/$1(-[0-9][^/\"]*)?/Cargo.toml\"" | head -n 1)
    found=${found#*:\"}
    [ -n "$found" ] || die "cargo knows no sources of $1"
    printf '%s' "${found%/Cargo.toml\"}"
}

# is_cross: reports whether the target is another processor than this one.
is_cross() { [ -n "${THUBAN_TARGET:-}" ] && [[ $THUBAN_TARGET != "$(uname -m)"-* ]]; }

# for_target TOOL: its name for the target. Debian's cross compilers are called gcc and g++ only.
for_target() {
    if ! is_cross; then
        printf '%s' "$1"
        return 0
    fi
    local tool=${1/#c++/g++}
    printf '%s-linux-gnu-%s' "${NATIVE_TARGET%%-*}" "${tool/#cc/gcc}"
}

# recorded FILE: its lines after the first.
recorded() { tail -n +2 "$NATIVE_RECORDS/$1"; }

# Reports whether the libraries can be built here: the processor and the versions equal the recorded ones.
native_is_possible() {
    [ "$(uname -m)" = x86_64 ] &&
        [ "$(head -n 1 "$NATIVE_RECORDS/rocksdb.flags")" = "# librocksdb-sys $(locked_version librocksdb-sys)" ] &&
        [ "$(head -n 1 "$NATIVE_RECORDS/jemalloc.configure")" = "# tikv-jemalloc-sys $(locked_version tikv-jemalloc-sys)" ]
}

# Names the folder of the libraries: by the records, the build settings and the compiler.
native_folder() {
    local key
    key=$({ "$(for_target c++)" --version && cat "$NATIVE_RECORDS"/*.* && rocksdb_flags ''; } | sha256sum | cut -c1-12)
    printf '%s/native-%s' "$CACHE" "$key"
}

# fitting MIB: number of processes of this size that fit into memory, with one Rust compiler per processor.
fitting() {
    awk -v size="$1" -v rust=$(($(nproc) * RUSTC_MIB)) '$1 == "MemAvailable:" { print int(($2 / 1024 - rust) / size) }' /proc/meminfo
}

# Every unit parses the same headers for a quarter of a minute: so there are just enough to use all processors, and
# smaller ones if memory is short. Other numbers than these could join two files that define the same name: record
# checks them.
unit_count() {
    if [ "$(nproc)" -gt 8 ]; then echo 16
    elif [ "$(nproc)" -gt 4 ] || [ "$(fitting "$QUARTER_MIB")" -lt "$(nproc)" ]; then echo 8
    else echo 4; fi
}

# unit_jobs UNITS: number of concurrent jobs: one per processor, as memory permits.
unit_jobs() {
    local jobs most
    jobs=$(nproc)
    most=$(fitting "$([ "$1" -gt 4 ] && echo "$EIGHTH_MIB" || echo "$QUARTER_MIB")")
    [ "$jobs" -le "$most" ] || jobs=$most
    echo $((jobs > 0 ? jobs : 1))
}

# write_units SOURCES FOLDER UNITS: the files of RocksDB in the order of the crate's list, cut into units of equal size.
write_units() {
    (cd "$1" && sed 's|^|rocksdb/|; s|^rocksdb/util/build_version.cc$|build_version.cc|' rocksdb_lib_sources.txt |
        xargs wc -c | awk -v units="$3" -v folder="$2" '
            $2 == "total" { next }
            { bytes[NR] = $1; file[NR] = $2; all += $1; last = NR }
            END {
                for (n = 1; n <= last; n++) {
                    unit = int(before * units / all)
                    before += bytes[n]
                    printf "#include \"%s\"\n", file[n] > sprintf("%s/unit-%02d.cc", folder, unit)
                }
            }')
}

# rocksdb_flags LZ4: as recorded, but with the optimization level of RocksDB's own Makefile (cc-rs uses cargo's), and
# without warnings, which are for RocksDB's developers.
rocksdb_flags() { recorded rocksdb.flags | sed "s|^@lz4@\$|$1|; s|^-O3\$|-O2|" | for_processor && echo -w; }

# for_processor: flags, one a line, with those of x86-64 replaced by the ones of RocksDB's Makefile for arm64. RocksDB
# asks the running processor for CRC32 and carry-less multiplication before it uses them.
for_processor() {
    if [[ $NATIVE_TARGET == aarch64-* ]]; then
        grep -vxE -e '-m64|-march=x86-64-v2|-msse[0-9.]*' && echo -march=armv8-a+crc+aes+crypto
    else
        cat
    fi
}

# compile_rocksdb FOLDER: creates librocksdb.a there. FOLDER/units/*.cc and *.o show the progress.
compile_rocksdb() {
    local folder=$1 sources lz4 units
    local -a flags
    sources=$(crate_folder librocksdb-sys)
    lz4=$(crate_folder lz4-sys)/liblz4/lib
    mapfile -t flags < <(rocksdb_flags "$lz4")
    units=$(unit_count)
    mkdir -p "$folder/units"
    write_units "$sources" "$folder/units" "$units"
    # shellcheck disable=SC2016 # expanded by the shell of each unit
    (cd "$sources" && printf '%s\n' "$folder"/units/*.cc |
        xargs -P "$(unit_jobs "$units")" -I '{}' sh -c 'unit=$1; shift; "$@" -c "$unit" -o "$unit.part" && mv "$unit.part" "${unit%.cc}.o"' \
            compile '{}' "$(for_target c++)" "${flags[@]}")
    rm -f "$folder/librocksdb.a"
    "$(for_target ar)" crs "$folder/librocksdb.a" "$folder"/units/*.o
    offers_its_symbols "$folder/librocksdb.a"
    rm -rf "$folder/units"
}

# offers_its_symbols LIBRARY: it defines every function that the bindings declare.
offers_its_symbols() {
    local missing
    missing=$(recorded rocksdb.bindings.rs | grep -oE 'pub fn rocksdb_[A-Za-z0-9_]+' | cut -d' ' -f3 | sort -u |
        comm -23 - <("$(for_target nm)" --defined-only "$1" 2>/dev/null | awk '$2 == "T" { print $3 }' | sort -u))
    [ -z "$missing" ] || die "$1 lacks what its bindings declare: $(head -n 3 <<<"$missing" | tr '\n' ' ')"
}

# compile_jemalloc FOLDER: creates libjemalloc_pic.a there.
compile_jemalloc() {
    local folder=$1 sources line
    local -a variables=() arguments=()
    sources=$(crate_folder tikv-jemalloc-sys)
    while read -r line; do
        case $line in --*) arguments+=("$line") ;; *) variables+=("$line") ;; esac
    done < <(recorded jemalloc.configure | sed "s|^--host=.*|--host=$NATIVE_TARGET|")
    if [[ $NATIVE_TARGET == aarch64-* ]]; then
        variables=("${variables[@]/ -m64/}")
        # Kernels for arm64 have pages of 4, 16 or 64 KiB; jemalloc takes what is not above its own.
        arguments+=(--with-lg-page=16)
    fi
    rm -rf "$folder/jemalloc"
    cp -r "$sources/jemalloc" "$folder/jemalloc"
    cp "$sources/configure/configure" "$folder/jemalloc/"
    (cd "$folder/jemalloc" && env CC="$(for_target cc)" "${variables[@]}" sh ./configure --prefix="$folder" "${arguments[@]}" &&
        make -j "$(nproc)" lib/libjemalloc_pic.a)
    "$(for_target strip)" --strip-debug -o "$folder/libjemalloc_pic.a" "$folder/jemalloc/lib/libjemalloc_pic.a"
    rm -rf "$folder/jemalloc"
}

# native_config FOLDER: configuration that replaces the two build scripts. Without bundling, the crates above can be
# compiled concurrently with the libraries.
native_config() {
    cat <<CONFIG
[target.$NATIVE_TARGET.rocksdb]
rustc-link-search = ["native=$1"]
rustc-link-lib = ["static:-bundle=rocksdb", "dylib=stdc++"]
rustc-env = { OUT_DIR = "$1" }

[target.$NATIVE_TARGET.jemalloc]
rustc-link-search = ["native=$1"]
rustc-link-lib = ["static:-bundle=jemalloc_pic"]
rustc-cfg = ["prefixed"]
CONFIG
}

# prepare_native: creates the folder with what cargo needs before the libraries exist, and sets NATIVE_CONFIG to its
# configuration; empty if cargo builds the libraries by itself.
prepare_native() {
    NATIVE_CONFIG=
    unset THUBAN_NATIVE
    native_is_possible || return 0
    local folder
    folder=$(native_folder)
    if [ ! -f "$folder/native.toml" ]; then
        mkdir -p "$folder"
        recorded rocksdb.bindings.rs >"$folder/bindings.rs"
        native_config "$folder" >"$folder/native.toml.$$"
        mv "$folder/native.toml.$$" "$folder/native.toml"
    fi
    NATIVE_CONFIG=$folder/native.toml
    export THUBAN_NATIVE=1 # a test looks for the instructions that these libraries have
}

# native_is_there: reports whether everything is compiled.
native_is_there() {
    [ -z "$NATIVE_CONFIG" ] || { [ -f "${NATIVE_CONFIG%/*}/librocksdb.a" ] && [ -f "${NATIVE_CONFIG%/*}/libjemalloc_pic.a" ]; }
}

# make_native: compiles what is missing. For two concurrent checkouts, the second waits for the first.
make_native() {
    local folder=${NATIVE_CONFIG%/*}
    (
        flock 8
        rm -rf "$folder/making"
        mkdir "$folder/making"
        # First the one that does not use all processors, which leaves some for concurrent work.
        if [ ! -f "$folder/libjemalloc_pic.a" ]; then
            compile_jemalloc "$folder/making"
            mv "$folder/making/libjemalloc_pic.a" "$folder/" # a rename, so that what was broken off is never taken
        fi
        if [ ! -f "$folder/librocksdb.a" ]; then
            compile_rocksdb "$folder/making"
            mv "$folder/making/librocksdb.a" "$folder/"
        fi
        rm -rf "$folder/making"
    ) 8>"$folder/lock"
}

# native_progress: number of compiled units of RocksDB.
native_progress() {
    local units=${NATIVE_CONFIG%/*}/making/units all compiled
    native_is_there && return 0
    all=$(compgen -G "$units/*.cc" | wc -l)
    compiled=$(compgen -G "$units/*.o" | wc -l)
    [ "$all" -eq 0 ] || printf 'RocksDB %s of %s units, ' "$compiled" "$all"
}

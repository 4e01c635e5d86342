# shellcheck shell=bash
# The common half of go/build, java/build and node/build: sourced, with the arguments PROGRAM [VARIANT], in the folder of a
# language.
#
# A program is built once, outside the checkout, into the cache that scripts/lib.sh names. The name of its folder carries the
# version that the file `programs` pins and a digest of everything that it is built from, so that a change is another
# folder. Tests run in parallel: one builds while the others wait.
#
# Status 69 (EX_UNAVAILABLE): a tool of the language is missing. Status 75 (EX_TEMPFAIL): its registry does not answer.

MISSING=69 NO_ANSWER=75
CACHE=${THUBAN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/thuban}
LANGUAGE=${PWD##*/} PROGRAM=${1:?PROGRAM [VARIANT]} VARIANT=${2:-newest}

# needs TOOL NAME: ends where the tool is not installed.
needs() {
    command -v "$1" >/dev/null && return 0
    echo "$2 is not installed; scripts/clients installs it" >&2
    exit $MISSING
}

# fetch COMMAND...: gets packages; ends with a word where the registry does not answer, or the tool is too old for them.
fetch() {
    local output
    output=$("$@" 2>&1 </dev/null) && return 0
    printf '%s\n' "$output" | tail -n 20 >&2
    case $output in
    *"no such host"* | *"i/o timeout"* | *"connection refused"* | *"Connection refused"* | *ENOTFOUND* | *ETIMEDOUT* | \
        *ECONNREFUSED* | *EAI_AGAIN* | *"Unknown host"* | *"timed out"* | *"Temporary failure"* | *"TLS handshake timeout"*)
        echo "the registry of $LANGUAGE does not answer" >&2
        exit $NO_ANSWER
        ;;
    *"requires go >="*)
        echo "the Go here is too old" >&2
        exit $MISSING
        ;;
    esac
    exit 1
}

# built_once TOOLS MAKE: prints the path of what to run, made by the function MAKE in $BUILT if it is not there yet. TOOLS
# is what the tools say of their versions.
built_once() {
    local digest version
    version=$(awk -v wanted="$LANGUAGE $PROGRAM $VARIANT" '$1 " " $2 " " $3 == wanted { print $4 "-" $5 }' ../programs)
    [ -n "$version" ] || { echo "no line \"$LANGUAGE $PROGRAM $VARIANT\" in tests/clients/programs" >&2; exit 2; }
    digest=$({ echo "$1"; { find ../build.sh "$PROGRAM" -type f; find . -maxdepth 1 -type f; } | LC_ALL=C sort | xargs sha256sum; } | sha256sum)
    BUILT=$CACHE/clients/$LANGUAGE-$PROGRAM-$version-${digest:0:12}
    mkdir -p "$CACHE/clients"
    exec 9>"$BUILT.lock"
    flock 9
    if [[ ! -e $BUILT/complete ]]; then
        rm -rf "$BUILT"
        mkdir "$BUILT"
        "$2" >&2
        touch "$BUILT/complete"
    fi
    echo "$BUILT/run"
}

#!/usr/bin/env bash
# Steps of a CI job that releases a tree of documents. THUBAN_ENDPOINT, THUBAN_TOKEN and THUBAN_NAMESPACE say where.
#
# Usage: examples/pipeline.sh check FOLDER     for a merge request: exit code 1 if the tree is wrong
#        examples/pipeline.sh release FOLDER   after the merge: apply and release
set -euo pipefail

step=$1 tree=$2

# Prints what would change. 0: nothing, 1: something, higher: a fault in the documents, or no right.
plan() {
    thuban apply -f "$tree" --dry-run && return 0
    [ $? = 1 ] || exit 1
}

case $step in
check) plan ;;
release)
    plan
    thuban apply -f "$tree" --release --yes
    # Nothing may be left to do.
    thuban diff -f "$tree"
    ;;
*) echo "usage: $0 check|release FOLDER" >&2 && exit 2 ;;
esac

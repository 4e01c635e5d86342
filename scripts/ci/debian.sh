# shellcheck shell=bash
# Minimal Debian systems in a folder, from this machine's own mirror. Sourced after scripts/lib.sh; WORK is a folder of
# the sourcing script, and WORK/log has what the commands print. Needs root.

RELEASE=bookworm
# Not part of an image.
# shellcheck disable=SC2034 # the sourcing scripts read it
LEFT_OUT=(
    'var/lib/apt/lists/*' 'var/cache/apt/*' 'usr/share/doc/*' 'usr/share/man/*'
    usr/sbin/policy-rc.d etc/resolv.conf etc/apt/apt.conf.d/90proxy
)

# "URI SUITE" of every Debian source of this machine that serves the release.
sources() {
    # shellcheck disable=SC2016 # apt's own variables
    apt-get indextargets --format '$(SITE) $(CODENAME)' 'Created-By: Packages' 'Component: main' 'Origin: Debian' |
        awk -v release="$RELEASE" '$2 == release || index($2, release "-") == 1' | sort -u
}

# make_base DIRECTORY: a minimal system, made once; it may install from this machine's mirror, through its proxy.
make_base() {
    local base=$1 mirror
    [ ! -d "$base" ] || return 0
    mirror=$(sources | awk -v release="$RELEASE" '$2 == release { print $1; exit }')
    [ -n "$mirror" ] || die "apt knows no mirror of Debian $RELEASE to make a system from"
    command -v debootstrap >/dev/null || apt_install debootstrap
    say "debootstrap of Debian $RELEASE"
    debootstrap --variant=minbase "$RELEASE" "$base" "$mirror" >"$WORK/log" 2>&1 || { tail "$WORK/log" >&2; return 1; }
    sources | awk '{ print "deb", $1, $2, "main" }' >"$base/etc/apt/sources.list"
    apt-config dump Acquire::http | grep -i proxy >"$base/etc/apt/apt.conf.d/90proxy" || true
    # The packages' services are started by the container, not by their installation.
    printf '#!/bin/sh\nexit 101\n' >"$base/usr/sbin/policy-rc.d"
    chmod 755 "$base/usr/sbin/policy-rc.d"
    in_root "$base" apt-get update -qq
    in_root "$base" apt-get upgrade -y -qq
}

# in_root DIRECTORY COMMAND...
in_root() {
    local root=$1
    shift
    env DEBIAN_FRONTEND=noninteractive LC_ALL=C chroot "$root" "$@" </dev/null >>"$WORK/log" 2>&1 ||
        { tail "$WORK/log" >&2; return 1; }
}

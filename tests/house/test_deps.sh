#!/usr/bin/env bash
# tools/deps on machines it is not running on: dpkg, apt and sudo are stubs that write down what
# they were asked for.
. "$(dirname "$0")/common.sh"
deps=$SONDE_SOURCE/tools/deps
bin=$scratch/bin
mkdir "$bin"

stub() { cat >"$bin/$1"; chmod +x "$bin/$1"; }
stub id <<<'#!/bin/sh
echo 1000'
stub dpkg-query <<<"#!/bin/sh
sed 's/^/ii /' '$scratch/installed'
echo 'rc gcc'"
stub apt-cache <<<"#!/bin/sh
exit \$(cat '$scratch/apt_cache')"
# Fails as often as the file fails says.
stub sudo <<<"#!/bin/sh
[ \"\$1\" = -n ] && shift
[ \"\$1\" = true ] && exit \$(cat '$scratch/sudo')
echo \"\$*\" >>'$scratch/log'
case \"\$*\" in *'apt-get install'*) ;; *) exit 0 ;; esac
fails=\$(cat '$scratch/fails')
echo \$((fails - 1)) >'$scratch/fails'
[ \"\$fails\" -le 0 ]"

# run CASE STATUS: tools/deps build with what the case set up.
run() {
    local status=0
    : >"$scratch/log"
    TMPDIR=$scratch PATH=$bin:$PATH bash "$deps" build </dev/null >"$scratch/out" 2>&1 || status=$?
    [ $status -eq "$2" ] || complain "$1: exit status $status, not $2:" "$(cat "$scratch/out")"
}
has() { grep -qF -e "$3" "$2" || complain "$1: no '$3' in:" "$(cat "$2")"; }
lacks() { ! grep -qF -e "$3" "$2" || complain "$1: '$3' in:" "$(cat "$2")"; }

bash "$deps" list build >"$scratch/installed"
echo 0 >"$scratch/sudo"; echo 0 >"$scratch/apt_cache"; echo 0 >"$scratch/fails"
run "nothing missing" 0
[ -s "$scratch/out" ] && complain "nothing missing: not silent: $(cat "$scratch/out")"
[ -s "$scratch/log" ] && complain "nothing missing: asked sudo for: $(cat "$scratch/log")"

grep -vx -e cmake -e gcc "$scratch/installed" >"$scratch/fewer"
mv "$scratch/fewer" "$scratch/installed"
run "two missing, one of them removed but configured" 0
has "two missing" "$scratch/out" "deps: installing gcc cmake"
has "two missing" "$scratch/log" "DEBIAN_FRONTEND=noninteractive apt-get install -y"
lacks "two missing, lists known" "$scratch/log" "apt-get update"

echo 1 >"$scratch/apt_cache"
run "lists unknown" 0
has "lists unknown" "$scratch/log" "apt-get update"

echo 0 >"$scratch/apt_cache"; echo 1 >"$scratch/fails"
run "first try fails" 0
has "first try fails" "$scratch/out" "trying once more"
has "first try fails" "$scratch/log" "apt-get update"

echo 9 >"$scratch/fails"
run "cannot install" 1
has "cannot install" "$scratch/out" "cannot install: gcc cmake"

echo 1 >"$scratch/sudo"
run "neither root nor sudo" 2
has "neither root nor sudo" "$scratch/out" "apt-get install -y --no-install-recommends gcc cmake"
[ -s "$scratch/log" ] && complain "neither root nor sudo: still ran $(cat "$scratch/log")"
finish

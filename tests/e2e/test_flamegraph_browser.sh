#!/usr/bin/env bash
# Flame graphs in Debian's Chromium: the SVG and the HTML viewer as a person would use them, odd
# names, differences, 200,000 stacks; and speedscope with our files. Screenshots are left in the
# build folder, browser/shots.
set -euo pipefail

: "${SONDE_BUILD:?set it to the build directory}"
: "${SONDE_SOURCE:?set it to the source directory}"
for tool in chromium node npm; do
    command -v $tool >/dev/null || { echo "$tool is missing: run tools/deps test" >&2; exit 1; }
done

work=$SONDE_BUILD/browser
rm -f "$work"/shots/{svg,html,speedscope}-*
mkdir -p "$work/shots"
"$SONDE_SOURCE/tests/node_packages" "$SONDE_SOURCE/tests/browser" "$work"
cd "$work"

flame=$SONDE_BUILD/programs/flame
draw() { "$flame" "$@" >>drawn.log; }
both() { # NAME FOLDED options
    local name=$1 folded=$2
    shift 2
    draw "$folded" "$name.svg" "$@"
    draw "$folded" "$name.html" "$@"
}
: >drawn.log
for kind in server after odd big; do node sample.mjs $kind $kind.folded; done
printf '%s\n' 'main;f;g;f;h 50' 'main;f;x 30' 'main;y 20' >recursive.folded
seq -s ';' -f 'f%g' 1 150 | sed 's/$/ 7/' >deep.folded

run=(--weight 1000000 --title 'llama-server, CPU time' --subtitle '30 s at 99 Hz, 2 threads')
both server server.folded "${run[@]}"
both diff after.folded --before server.folded --weight 1000000
both odd odd.folded --title 'odd & <names>'
both recursive recursive.folded
draw deep.folded deep.svg
draw server.folded icicle.svg --icicle "${run[@]}"
draw server.folded narrow.svg --min-width 0.05
draw server.folded inverted.html --invert "${run[@]}"
for scheme in hot cold rainbow monochrome module; do
    draw server.folded colors-$scheme.svg --colors $scheme --title "$scheme"
done
draw server.folded server.speedscope.json --weight 1000000
draw odd.folded odd.speedscope.json
"$flame" big.folded big.svg
"$flame" big.folded big.html
for file in big.svg big.html; do
    size=$(stat -c %s $file)
    [ "$size" -le 5242880 ] || { echo "$file: $size bytes, more than 5 MiB" >&2; exit 1; }
done

SONDE_OUT=$work node --test svg.test.mjs html.test.mjs speedscope.test.mjs
rm -f big.folded

#!/usr/bin/env bash
# The TypeScript of web/ and of tests/web: types, lint, and the unit tests, which are what needs no
# browser. To run one test alone, with its own files in the build folder:
#
#   SONDE_SOURCE=$PWD SONDE_BUILD=$PWD/build/release tests/house/test_web.sh format   # format.test.ts
. "$(dirname "$0")/common.sh"
cd "$SONDE_SOURCE"

work=$SONDE_BUILD/browser
modules=$SONDE_BUILD/web/node_modules # what web/ is built with
[ -d "$modules" ] || { echo "build first: $modules is missing" >&2; exit 1; }
tests/node_packages "$SONDE_SOURCE/tests/browser" "$work" >"$scratch/npm" 2>&1 || { cat "$scratch/npm" >&2; exit 1; }

# The packages lie in the build folder, so imports are looked for there.
export SONDE_MODULES=$work/node_modules SONDE_TSCONFIG=$scratch/tsconfig.json
cat >"$SONDE_TSCONFIG" <<END
{ "extends": "$SONDE_SOURCE/web/tsconfig.json",
  "compilerOptions": { "paths": { "*": ["$modules/*", "$modules/@types/*"] } },
  "include": ["$SONDE_SOURCE/web/src", "$SONDE_SOURCE/tests/web"] }
END
"$SONDE_MODULES/.bin/tsc" -p "$SONDE_TSCONFIG" || complain "types are wrong"
[ $# -gt 0 ] ||
    "$SONDE_MODULES/.bin/eslint" --config web/eslint.config.mjs --max-warnings 0 'web/src/**/*.ts' 'tests/web/*.ts' ||
    complain "eslint complains"

out=$SONDE_BUILD/web/tests
rm -rf "$out"
mkdir -p "$out"
node tests/web/bundle.mjs "$modules" "$out" tests/web/${1:-*}.test.ts || complain "cannot be bundled"
node --enable-source-maps --test "$out"/*.mjs >"$scratch/tests" 2>&1 || complain "$(cat "$scratch/tests")"
finish

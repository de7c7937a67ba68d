#!/usr/bin/env bash
# Large frames whose call paths change within microseconds: where their stacks are not whole, it is
# said which engine does better. How many are not is the machine's affair.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit 1
cat >large.c <<'EOF'
#include <time.h>
static volatile unsigned long sink;
#define F(name, size, next) __attribute__((noinline)) static void name(int k) \
    { volatile char b[size]; b[0] = b[size - 1] = (char)k; next; sink += (unsigned long)b[0]; }
__attribute__((noinline)) static void leaf(int n) { for (int i = 0; i < n; i++) sink += (unsigned long)i; }
F(f100, 100 << 10, leaf(300 + k % 30))
F(f200, 200 << 10, f100(k); leaf(100))
F(f500, 500 << 10, if (k % 3) f200(k); else f100(k))
F(f300, 300 << 10, f500(k); leaf(200))
int main(void)
{
    for (int k = 0; clock() < CLOCKS_PER_SEC; k++) {
        if (k % 5) f300(k);
        else f500(k);
    }
    return 0;
}
EOF
gcc -O1 large.c -o large || complain "no program"
if "$sonde" doctor 2>/dev/null | grep -q 'perf events by'; then
    status 0 "$sonde" record --engine perf -F 2000 -o large.run -- ./large
    # From 1 % on: the hint begins at 0.1 %, and at three samples.
    if grep -qE '^sonde: [1-9][0-9]*\.[0-9]* % of the stacks are truncated, since outer frames changed' err; then
        has "which engine does better" 'truncated, .*\(--engine timer unwinds in place' err
    else
        echo "there was nothing to say: $(grep -E 'samples|truncated' err)"
    fi
fi
status 0 "$sonde" record --engine timer -o in_place.run -- ./large
lacks "the timer engine has no such hint" 'unwinds in place' err
finish

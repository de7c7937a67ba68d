#!/usr/bin/env bash
# Programs that people run do under the heap profiler what they do without: same output, same exit
# status, with every allocation recorded and with samples, whatever allocator is under it.
. "$(dirname "$0")/../cli/common.sh"
cd "$scratch" || exit
export HOME=$scratch

# compare WHAT COMMAND…: plain, sampled and full. What is in `differs` is not compared.
differs='^$'
compare() {
    local what=$1 plain=0 got mode
    shift
    timeout -k 5 120 "$@" >plain.out 2>plain.err || plain=$?
    for mode in 16384 full; do
        got=0
        timeout -k 5 240 "$sonde" run -q --no-http --no-cpu --heap=$mode --record "$what.$mode.run" \
            -- "$@" >got.out 2>got.err || got=$?
        same "$what, $mode: exit status" "$plain" "$got"
        diff <(grep -vE "$differs" plain.out) <(grep -vE "$differs" got.out) >difference ||
            complain "$what, $mode: not the same output:" "$(head -n 20 difference)" \
                "$(head -n 5 got.err)"
        [ $mode = full ] || continue # a small program may allocate too little for a sample
        "$sonde" report --json "$what.$mode.run" >report.json 2>report.err ||
            complain "$what, $mode: $(cat report.err)"
        python3 - "$what" "$mode" <<'END' || failures=$((failures + 1))
import json, sys
m = json.load(open("report.json")).get("memory")
if not m or not m["allocated_bytes"]["value"] > 0:
    sys.exit("%s, %s: nothing was recorded" % tuple(sys.argv[1:]))
END
    done
}

# Only if it is there: packages of other systems have other names.
have() { command -v "$1" >/dev/null || { echo "left out: there is no $1"; return 1; }; }

# ---- Programs ------------------------------------------------------------------------------
git init -q repo && cd repo || exit
git config user.email test@localhost && git config user.name test
for i in 1 2 3; do
    seq "$i" 2000 >"file$i" && git add . && git -c gc.auto=0 commit -qm "change $i"
done
cd "$scratch" || exit
compare git git -C repo log -p --stat

cat >storm.py <<'END'
import threading
def work(n, out):
    kept = {}
    for i in range(20000):
        kept[i % 997] = [bytes(i % 300), str(i) * 3, {"a": i, "b": [i] * (i % 17)}]
    out[n] = sum(len(v[0]) + len(v[1]) + v[2]["a"] for v in kept.values())
out = {}
threads = [threading.Thread(target=work, args=(n, out)) for n in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(sorted(out.items()))
END
compare python python3 storm.py

have sqlite3 && compare sqlite sqlite3 :memory: \
    'create table t(a integer, b text); with recursive c(i) as (select 1 union all select i+1 from c where i < 20000) insert into t select i, hex(i * 7919) || i from c; create index x on t(b); select count(*), sum(a), max(b) from t; select b from t order by b desc limit 5;'

compare node node -e 'const m = new Map(); for (let i = 0; i < 200000; i++) m.set(i % 5000, Buffer.alloc(i % 700).toString("hex")); console.log(m.size, [...m.values()].reduce((a, s) => a + s.length, 0))'

# Children: the compiler, the assembler and the linker are what it starts.
cat >hello.c <<'END'
#include <stdio.h>
int main(void) { printf("hello\n"); return 0; }
END
compare gcc sh -c 'gcc -O2 -o hello hello.c && ./hello && cksum <hello'

have stress-ng && differs='stress-ng: (info|debug|metrc)' \
    compare stress stress-ng --malloc 2 --malloc-ops 20000 --malloc-bytes 8m --timeout 60 -q

cat >custom.cpp <<'END'
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>
static thread_local unsigned long calls;
void *operator new(std::size_t n)
{
    calls++;
    if (void *p = std::malloc(n)) return p;
    throw std::bad_alloc();
}
void operator delete(void *p) noexcept { std::free(p); }
void operator delete(void *p, std::size_t) noexcept { std::free(p); }
int main()
{
    std::vector<std::thread> all;
    unsigned long counts[3];
    for (int t = 0; t < 3; t++) {
        all.emplace_back([t, &counts] {
            std::map<std::string, std::vector<int>> m;
            for (int i = 0; i < 20000; i++) m["a long enough key " + std::to_string(i % 500)].push_back(i);
            counts[t] = calls + m.size();
        });
    }
    for (auto &t : all) t.join();
    for (unsigned long c : counts) std::printf("%lu\n", c);
    try {
        void *p = ::operator new(std::size_t(1) << 62);
        std::printf("%p\n", p);
    } catch (const std::bad_alloc &) {
        std::puts("refused");
    }
}
END
g++ -O2 -o custom custom.cpp -pthread || complain "custom.cpp does not compile"
compare custom ./custom

# ---- Other allocators under it -------------------------------------------------------------
for allocator in jemalloc:libjemalloc.so.2 tcmalloc:libtcmalloc_minimal.so.4; do
    path=$(ldconfig -p | sed -n "s/.*${allocator#*:} .*=> //p" | head -n 1)
    [ -n "$path" ] || { echo "left out: there is no ${allocator%%:*}"; continue; }
    compare "${allocator%%:*}" env LD_PRELOAD="$path" ./custom
done

# ---- A hundred forks under allocation load --------------------------------------------------
cat >forks.c <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int stop;
static void *load(void *arg)
{
    (void)arg;
    void *kept[64] = { 0 };
    for (unsigned i = 0; !stop; i++) {
        free(kept[i % 64]);
        kept[i % 64] = malloc(i * 2654435761u % 4096);
    }
    for (int i = 0; i < 64; i++) free(kept[i]);
    return NULL;
}
int main(void)
{
    pthread_t t[3];
    int ok = 0;
    for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, load, NULL);
    for (int i = 0; i < 100; i++) {
        const pid_t pid = fork();
        if (pid == 0) {
            alarm(60);
            for (int k = 0; k < 1000; k++) free(realloc(malloc((size_t)k), (size_t)k * 2 + 1));
            _exit(0);
        }
        int status = -1;
        waitpid(pid, &status, 0);
        ok += status == 0;
    }
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    printf("forked %d\n", ok);
    return 0;
}
END
gcc -O2 -o forks forks.c -pthread || complain "forks.c does not compile"
compare forks ./forks

# ---- A browser -----------------------------------------------------------------------------
if have chromium; then
    echo '<title>t</title><body style="background:#08c"><h1>text</h1>' >page.html
    for mode in 524288 full; do
        timeout -k 5 240 "$sonde" run -q --no-http --no-cpu --heap=$mode -- chromium --headless=new \
            --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$scratch/profile.$mode" \
            --window-size=320,200 --screenshot="$scratch/shot.$mode.png" "file://$scratch/page.html" \
            >got.out 2>got.err || complain "chromium, $mode: exit status $?" "$(tail -n 5 got.err)"
        [ -s "shot.$mode.png" ] || complain "chromium, $mode: no screenshot" "$(tail -n 5 got.err)"
    done
fi
finish

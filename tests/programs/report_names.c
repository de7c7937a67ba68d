/* Operations, caches, scopes and the rest under names that try to leave the places that reports
 * put them in: markup, formulas, quotes, control characters, text that runs to the left. Prints how
 * many of each it recorded. */
#include <stdio.h>
#include <time.h>

#include "sonde/sonde.h"

static const char *const names[] = {
    "plain", "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>",
    "a|b *bold* _it_ `code` [l](http://evil.example) ![i](x)", "=HYPERLINK(\"http://evil\")",
    "+1+cmd", "-2-3", "@SUM(A1)", "quote\"comma,semi;'apos", "tab\there", "two\nlines\r\n# head",
    "\033[31mred\a", "\xe2\x80\xaeleft\xe2\x80\xac",
    "$x^2$ &lt; &amp; #tag ~~gone~~ www.evil.example",
    "\\back\\slash\\n", "\xef\xbc\x9d" "wide", "{{template}} %s %n ${x}",
};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static void doze(long ns)
{
    nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

int main(void)
{
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < NAMES; i++) {
            struct sonde_op op;
            struct sonde_resource r;
            struct sonde_throughput t;
            uint64_t items = 5;
            sonde_op_begin(&op, names[i]);
            sonde_op_end(&op, round ? SONDE_OK : SONDE_ERROR, names[i]);
            sonde_cache_access(names[i], round > 0);
            sonde_bandwidth_in(names[i], 100);
            sonde_resource_begin(&r, names[i]);
            sonde_resource_end(&r);
            sonde_throughput_begin(&t, names[i], &items);
            doze(1000);
            sonde_throughput_end(&t);
        }
    }
    doze(400000000); /* the agent looks once more, so that there are series over time */
    printf("%d names, %d operations of each\n", NAMES, 3);
    return 0;
}

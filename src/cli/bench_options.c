/* bench_options.c - see bench_options.h. */
#include "cli/bench_options.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"

int sonde_cli_bench_percent(const struct sonde_cli *cli, const char *option, const char *text,
                            double *out)
{
    char number[32];
    double percent = 0;
    if (!text) return SONDE_EXIT_OK;
    const char *from = !strncmp(text, "±", strlen("±")) ? text + strlen("±") : text;
    snprintf(number, sizeof(number), "%s", from);
    const size_t len = strlen(number);
    if (len && number[len - 1] == '%') number[len - 1] = '\0';
    if (strlen(from) >= sizeof(number) || sonde_cli_number(number, &percent) || !(percent > 0) ||
        percent > 100) {
        return sonde_cli_usage(cli, "--%s: '%.40s' is not a share in per cent, such as 1%%", option,
                               text);
    }
    *out = percent / 100;
    return SONDE_EXIT_OK;
}

uint64_t sonde_cli_bench_seed(uint64_t given)
{
    if (given) return given;
    const uint64_t now = sonde_clock_ns(CLOCK_REALTIME);
    return sonde_hash_u64(now ^ (uint64_t)getpid() << 40) % 999999 + 1;
}

static int bench_options_https(const char *url)
{
    return url && !strncasecmp(url, "https://", 8);
}

int sonde_cli_bench_trust(const struct sonde_cli *cli, const struct sonde_bench_trust *t,
                          const char *a, const char *b)
{
    struct sonde_err err = { "" };
    if (!t->insecure && !t->ca_file) return SONDE_EXIT_OK;
    if (!bench_options_https(a) && !bench_options_https(b)) {
        return sonde_cli_usage(cli, "--cacert and --insecure are for https:// URLs");
    }
    const int rc = sonde_bench_trust_check(t, &err);
    if (!rc) return SONDE_EXIT_OK;
    return rc == SONDE_EINVAL ? sonde_cli_usage(cli, "%s", err.text)
                              : sonde_cli_fail(cli, "%s", err.text);
}

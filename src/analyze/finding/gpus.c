#include "analyze/finding/gpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/track.h"

static void finding_gpus_add(struct finding_gpu *out, size_t *count, const char *labels)
{
    const char *at = strstr(labels, "gpu=\"");
    if (!at || *count == FINDING_GPUS_MAX) return;
    char *end;
    const unsigned long n = strtoul(at + 5, &end, 10);
    if (end == at + 5 || *end != '"' || n > 100000) return;
    struct finding_gpu g;
    snprintf(g.label, sizeof(g.label), "gpu=\"%lu\"", n);
    snprintf(g.subject, sizeof(g.subject), "GPU %lu", n);
    for (size_t i = 0; i < *count; i++) {
        if (!strcmp(out[i].label, g.label)) return;
    }
    out[(*count)++] = g;
}

size_t finding_gpus(const struct finding_look *l, struct finding_gpu out[static FINDING_GPUS_MAX])
{
    const struct sonde_tracks *t = l->p->tracks;
    size_t count = 0;
    for (uint32_t i = 0; t && i < t->count; i++) {
        const struct sonde_track *row = &t->rows[i];
        if (row->pid && !strncmp(row->family, "sonde_gpu_process_", 18)) {
            finding_gpus_add(out, &count, row->labels);
        }
    }
    return count;
}

struct finding_series finding_gpu_series(const struct finding_gpu *g, const char *family,
                                         const char *other, char label[static 64])
{
    /* As the agent writes them: the device first. */
    snprintf(label, 64, "%s%s%s", g->label, other ? "," : "", other ? other : "");
    return (struct finding_series){ .family = family, .label = label, .host = 1 };
}
